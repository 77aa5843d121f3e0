"""An artefact is data: whatever its files say, nothing outside of it is read or written, and nothing of it is run."""

import json
import shutil

import onnx
import pytest

from attendant.engine_manifest import ENGINE_MANIFEST_NAME
from attendant.errors import UserError
from attendant.manifest import MANIFEST_NAME, Manifest, sha256_of
from export.verbs import check
from serving.runtime.create_runners import create_runners
from serving.triton.repository.layout import write_repository
from tests.export.hostile_graphs import MALFORMED, functions_in_functions, nested_conditions, relus, replace_graph

SECRET = "a secret of somebody else"


@pytest.fixture
def place(tmp_path, exported):
    """A folder with a sound artefact, and beside it what nobody may touch."""
    shutil.copytree(exported("vit-tiny"), tmp_path / "in" / "artefact")
    (tmp_path / "secret.txt").write_text(SECRET)
    (tmp_path / "in" / "secret.data").write_text(SECRET)
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'RAN')!r}, 'w')\n")
    return tmp_path


def change(artefact, **fields):
    path = artefact / MANIFEST_NAME
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def add_file(artefact, name, content=b"x", listed=None):
    (artefact / name).write_bytes(content)
    files = json.loads((artefact / MANIFEST_NAME).read_text())["files"]
    change(artefact, files=files | {listed or name: sha256_of(artefact / name)})


def with_field(**fields):
    return lambda artefact: change(artefact, **fields)


def with_file(name):
    return lambda artefact: add_file(artefact, "x.json", listed=name)


def add_weights(location):
    def tamper(artefact):
        path = artefact / "model.onnx"
        model = onnx.load(path, load_external_data=False)
        tensor = model.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=location)
        path.write_bytes(model.SerializeToString())
        add_file(artefact, "model.onnx", path.read_bytes())

    return tamper


def add_lowered(file):
    one = {"graph": "model", "target": "ort-cpu", "file": file, "passes": [], "types": {}}
    return lambda artefact: change(artefact, lowered=[one])


def add_weights_to_lowered(artefact):
    """In a file that does not end as graphs do."""
    add_weights("../secret.data")(artefact)
    add_file(artefact, "lowered.json", (artefact / "model.onnx").read_bytes())
    (artefact / "model.onnx").write_bytes(relus(1))
    add_file(artefact, "model.onnx", (artefact / "model.onnx").read_bytes())
    add_lowered("lowered.json")(artefact)


def link(name, target):
    def tamper(artefact):
        (artefact / name).unlink(missing_ok=True)
        (artefact / name).symlink_to(target)

    return tamper


def add_engines(**fields):
    def tamper(artefact):
        platform = dict.fromkeys(("tensorrt", "cuda", "driver", "gpu", "capability"), "1")
        engine = {
            "graph": "model",
            "phase": "",
            "sha256": "0" * 64,
            "source": "model.onnx",
            "built_from": {},
            "profiles": [],
            "aliases": {},
            "weights": "fixed",
            "hardware": "this-gpu",
            "version_compatible": False,
            "plugins": {},
            "attention": {},
            "lowered": None,
            "device_bytes": 0,
            "weight_bytes": 0,
        } | {key: value for key, value in fields.items() if key != "name"}
        record = {"format": 1, "name": fields.get("name", "x"), "platform": platform, "engines": [engine]}
        (artefact / ENGINE_MANIFEST_NAME).write_text(json.dumps(record | {"command": "x"}))

    return tamper


NAMES = ["../victim", "/victim", ".", "..", "", "a\nb", "a/b", "-rf", "a" * 300]
TAMPERED = {
    **{f"name {name[:12]!r}": with_field(name=name) for name in NAMES},
    **{
        f"file {name}": with_file(name)
        for name in ("model.py", "config.pbtxt", "manifest.json", "../x.json", "/x.json", "x.so", "x.plan", "a/b.json")
    },
    "code": lambda artefact: add_file(artefact, "model.py", b"raise SystemExit"),
    **{f"lowered {file}": add_lowered(file) for file in ("../../..", "../secret.data", "/etc/passwd", "unlisted.onnx")},
    **{f"weights in {name}": add_weights(name) for name in ("../secret.data", "/etc/passwd", "unlisted.data", "..")},
    "weights of a lowered graph": add_weights_to_lowered,
    "functions within each other": lambda artefact: replace_graph(artefact, functions_in_functions(60)),
    "subgraphs within each other": lambda artefact: replace_graph(artefact, nested_conditions(60)),
    "too many nodes": lambda artefact: replace_graph(artefact, relus(100_001)),
    **{
        f"no graph: {name}": lambda artefact, content=content: add_file(artefact, "model.onnx", content)
        for name, content in MALFORMED.items()
    },
    "a graph that is a link": link("model.onnx", "../secret.data"),
    "an unlisted link": link("chat_template.jinja", "../../secret.txt"),
    "a link to a device": link("tokenizer.json", "/dev/zero"),
    **{
        f"details {key}": with_field(details={key: "x"})
        for key in ("runtime", "threads", "task", "max_num_seqs", "graph_model")
    },
    "engines of a name": add_engines(name="../x"),
    "engines of a graph": add_engines(graph="../x"),
    "engines of a phase": add_engines(phase="../x"),
    "engines of a source": add_engines(source="../x"),
    "engines from a file": add_engines(built_from={"../../secret.txt": "0" * 64}),
    "engines of a lowered file": add_engines(
        lowered={"graph": "model", "target": "tensorrt", "file": "../x", "passes": [], "types": {}}
    ),
}


def outside(place):
    return {
        path: path.read_bytes() if path.is_file() else None
        for path in place.rglob("*")
        if place / "in" / "artefact" not in (path, *path.parents) and place / "repository" not in (path, *path.parents)
    }


@pytest.mark.planted
@pytest.mark.parametrize("tamper", TAMPERED.values(), ids=list(TAMPERED))
def test_a_hostile_artefact_is_refused_and_touches_nothing(tamper, place):
    artefact = place / "in" / "artefact"
    tamper(artefact)
    before = outside(place)
    with pytest.raises(UserError):
        write_repository([artefact], place / "repository")
    assert outside(place) == before
    assert not any(SECRET.encode() in path.read_bytes() for path in place.glob("repository/**/*") if path.is_file())


@pytest.mark.parametrize("tamper", [add_weights("../secret.data"), link("model.onnx", "../secret.data")])
def test_what_a_server_reads_is_held_to_the_same(tamper, place):
    artefact = place / "in" / "artefact"
    tamper(artefact)

    def read():
        manifest = Manifest.read(artefact)
        manifest.verify(artefact)
        create_runners(artefact, manifest)

    with pytest.raises(UserError):
        read()


@pytest.mark.planted
def test_a_python_file_that_a_manifest_names_is_not_run(place):
    artefact = place / "in" / "artefact"
    change(artefact, source=str(place / "evil.py"))
    with pytest.raises(UserError, match="--source"):
        check(artefact)
    assert not (place / "RAN").exists()


def test_a_report_is_not_written_through_a_link(place):
    artefact = place / "in" / "artefact"
    for name in ("parity.json", "parity.json.part", "manifest.json.part"):
        (artefact / name).unlink(missing_ok=True)
        (artefact / name).symlink_to(place / "secret.txt")
    with pytest.raises(UserError, match="a link at"):
        check(artefact)
    manifest = Manifest.read(artefact)
    manifest.write(artefact)
    assert (place / "secret.txt").read_text() == SECRET
