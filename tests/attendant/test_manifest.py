import dataclasses
import hashlib
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attendant.errors import ArtefactError
from attendant.manifest import MANIFEST_NAME, Lowered, Manifest, sha256_of
from attendant.records import record_to_json
from attendant.signature import GraphSignature, TensorSpec
from tests.models.signatures import signatures

VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=8), VALUES, max_size=4)
STRINGS = st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=3)
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,8}", fullmatch=True)
FILES = st.dictionaries(NAMES.map("{}.onnx".format), st.just("0" * 64), max_size=3)
MANIFESTS = st.builds(
    Manifest,
    name=NAMES,
    **{name: st.text(max_size=8) for name in ("task", "family", "source", "fingerprint")},
    **dict.fromkeys(("config", "example"), OBJECTS),
    details=st.dictionaries(st.from_regex("[a-z][a-z0-9_]{0,8}", fullmatch=True), st.integers(), max_size=3),
    versions=STRINGS,
    files=FILES,
    graphs=st.lists(signatures(), max_size=2).map(tuple),
    lowered=st.lists(
        st.builds(
            Lowered,
            **dict.fromkeys(("graph", "target"), st.text(max_size=8)),
            file=st.just(""),
            passes=st.lists(OBJECTS, max_size=2).map(tuple),
            types=st.dictionaries(st.text(max_size=8), st.sampled_from(["int8", "float16"]), max_size=2),
        ),
        max_size=2,
    ).map(tuple),
)


def small_manifest(**changes):
    spec = TensorSpec(name="pixels", dtype="float32", axes=("batch", 3))
    parts = {
        "name": "digits",
        "task": "classify",
        "family": "vit",
        "config": {"layers": 2},
        "graphs": (GraphSignature(name="model", inputs=(spec,), outputs=()),),
        "files": {},
    }
    return Manifest(**{**parts, **changes})


@pytest.fixture
def artefact(tmp_path):
    """A folder with a manifest over two files."""
    (tmp_path / "model.onnx").write_bytes(b"\x08\x0d\x3a\x00")  # an empty graph
    (tmp_path / "tokenizer.json").write_bytes(b"{}")
    files = {path.name: sha256_of(path) for path in tmp_path.iterdir()}
    small_manifest(files=files).write(tmp_path)
    return tmp_path


@given(MANIFESTS)
def test_a_manifest_survives_the_disk(manifest):
    with tempfile.TemporaryDirectory() as folder:
        manifest.write(Path(folder))
        assert Manifest.read(Path(folder)) == manifest
        assert [path.name for path in Path(folder).iterdir()] == [MANIFEST_NAME]


def test_writing_again_replaces_the_manifest(artefact):
    small_manifest(name="other").write(artefact)
    assert Manifest.read(artefact).name == "other"


def test_a_graph_is_found_by_its_name():
    assert small_manifest().graph("model").inputs[0].name == "pixels"


def test_a_graph_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(ArtefactError) as caught:
        small_manifest().graph("decoder")
    assert caught.value.expected == "a graph named 'decoder' in the manifest of 'digits'"
    assert caught.value.found == "['model']"


def changed(text, **changes):
    value = {**json.loads(text), **changes}
    return json.dumps({key: item for key, item in value.items() if item is not None})


def without(part):
    value = record_to_json(GraphSignature(name="x", inputs=(), outputs=()))
    del value[part]
    return value


DAMAGES = {
    "empty": lambda _: "",
    "cut in the middle": lambda text: text[: len(text) // 2],
    "a list": lambda _: "[]",
    "a number": lambda _: "5",
    "no name": lambda text: changed(text, name=None),
    "no graphs": lambda text: changed(text, graphs=None),
    "no files": lambda text: changed(text, files=None),
    "no format": lambda text: changed(text, format=None),
    "an unknown part": lambda text: changed(text, stranger=1),
    "a graph without inputs": lambda text: changed(text, graphs=[without("inputs")]),
    "a graph without axes": lambda text: changed(text, graphs=[without("axes")]),
    "graphs that are a number": lambda text: changed(text, graphs=5),
    "files that are a list": lambda text: changed(text, files=["model.onnx"]),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_manifest_is_refused_with_its_path_and_a_way_out(damage, artefact):
    path = artefact / MANIFEST_NAME
    path.write_text(damage(path.read_text()))
    with pytest.raises(ArtefactError) as caught:
        Manifest.read(artefact)
    assert caught.value.expected == f"a complete manifest at {path}"
    assert caught.value.found
    assert "attendant export onnx" in caught.value.remedy


def test_a_manifest_of_another_format_is_refused(artefact):
    path = artefact / MANIFEST_NAME
    path.write_text(changed(path.read_text(), format=99))
    with pytest.raises(ArtefactError, match=r"manifest.json is of format 99; this version reads format \d+; write it"):
        Manifest.read(artefact)


def test_a_graph_whose_alias_is_no_buffer_is_refused_on_reading(artefact):
    path = artefact / MANIFEST_NAME
    value = json.loads(path.read_text())
    value["graphs"][0]["aliases"] = {"logits": "pixels"}
    path.write_text(json.dumps(value))
    with pytest.raises(ArtefactError, match="graph 'model' to alias"):
        Manifest.read(artefact)


@pytest.mark.parametrize("content", [None, b"\xff\xfe\xff"], ids=["missing", "not text"])
def test_an_unreadable_manifest_is_refused(content, tmp_path):
    if content is not None:
        (tmp_path / MANIFEST_NAME).write_bytes(content)
    with pytest.raises(ArtefactError, match="manifest.json is missing" if content is None else "not|decode") as caught:
        Manifest.read(tmp_path)
    assert caught.value.expected == f"a readable manifest at {tmp_path / MANIFEST_NAME}"
    assert str(tmp_path) in str(caught.value)


def test_an_artefact_that_is_what_its_manifest_says_is_taken(artefact):
    Manifest.read(artefact).verify(artefact)


@pytest.mark.planted
@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_changed_file_is_detected(name, artefact):
    path = artefact / name
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(ArtefactError) as caught:
        Manifest.read(artefact).verify(artefact)
    assert str(path) in caught.value.expected
    assert caught.value.found == sha256_of(path)[:12] + "…"
    assert "export again" in caught.value.remedy


@pytest.mark.planted
@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_missing_file_is_detected(name, artefact):
    (artefact / name).unlink()
    with pytest.raises(ArtefactError, match=f"{name} with SHA-256 .*; found no file;"):
        Manifest.read(artefact).verify(artefact)


def test_the_hash_is_the_sha_256_of_the_bytes(tmp_path):
    (tmp_path / "file").write_bytes(b"\x00\r\n" * 100_000)
    assert sha256_of(tmp_path / "file") == hashlib.sha256(b"\x00\r\n" * 100_000).hexdigest()


def test_a_manifest_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        small_manifest().name = "other"


def test_the_file_for_a_target_is_the_lowered_one_where_there_is_one():
    lowered = (
        Lowered(graph="decoder", target="ort-cpu", file="decoder.ort-cpu.onnx"),
        Lowered(graph="explained", target="ort-cpu", file=""),
    )
    manifest = small_manifest(lowered=lowered)
    assert manifest.file_for("decoder", "ort-cpu") == "decoder.ort-cpu.onnx"
    assert manifest.file_for("decoder", "tensorrt") == "decoder.onnx"
    assert manifest.file_for("explained", "ort-cpu") == "explained.onnx", "where no pass had anything to do"


def test_the_signature_for_a_target_has_the_types_of_the_lowered_graph_and_is_else_the_graphs():
    cache, out = (TensorSpec(name=name, dtype="float32", axes=("batch", 2, 8, 4)) for name in ("cache_in", "cache_out"))
    mask = TensorSpec(name="mask", dtype="bool", axes=("batch",))
    graph = GraphSignature(name="decoder", inputs=(cache, mask), outputs=(out,), aliases={"cache_out": "cache_in"})
    types = {"cache_in": "int8", "cache_out": "int8"}
    lowered = (Lowered(graph="decoder", target="ort-cpu", file="decoder.ort-cpu.onnx", types=types),)
    manifest = small_manifest(graphs=(graph,), lowered=lowered)
    kept = manifest.signature_for("decoder", "ort-cpu")
    assert [spec.dtype for spec in (*kept.inputs, *kept.outputs)] == ["int8", "bool", "int8"]
    assert kept.aliases == graph.aliases
    assert manifest.signature_for("decoder", "tensorrt") == graph
    halved = dataclasses.replace(lowered[0], types={"cache_in": "int8"})
    with pytest.raises(ArtefactError, match="to alias an output with an input of the same type"):
        small_manifest(graphs=(graph,), lowered=(halved,)).signature_for("decoder", "ort-cpu")


OUTSIDE = [
    "../config.pbtxt",
    "../../../x",
    "/etc/passwd",
    ".",
    "..",
    "",
    "a/b",
    "a\\b",
    "a\nb",
    "-rf",
    ".hidden",
    "a" * 201,
]


@pytest.mark.parametrize(
    "name", [*OUTSIDE, "model.py", "config.pbtxt", "manifest.json", "engine.json", "run.sh", "x.so"]
)
def test_a_file_that_no_artefact_may_hold_is_refused_on_reading(name, artefact):
    path = artefact / MANIFEST_NAME
    path.write_text(changed(path.read_text(), files={name: "0" * 64}))
    with pytest.raises(ArtefactError, match=r"plain names of files that end in .*\.onnx.*in the manifest of 'digits'"):
        Manifest.read(artefact)


@pytest.mark.parametrize(
    ("place", "name"),
    [(place, name) for place in ("name", "graphs", "lowered") for name in OUTSIDE if name or place != "lowered"],
)
def test_a_name_that_leads_elsewhere_is_refused_on_reading(place, name, artefact):
    path = artefact / MANIFEST_NAME
    value = json.loads(path.read_text())
    if place == "name":
        value["name"] = name
    elif place == "graphs":
        value["graphs"][0]["name"] = name
    else:
        value["lowered"] = [record_to_json(Lowered(graph="model", target="ort-cpu", file=name))]
    path.write_text(json.dumps(value))
    with pytest.raises(ArtefactError, match="a name of at most 200 letters"):
        Manifest.read(artefact)


@pytest.mark.parametrize("name", ["EXECUTION_ENV_PATH", "TRITON_BATCH_STRATEGY_PATH", "Unit", "", "a\nb", "a" * 201])
def test_a_detail_that_would_be_a_parameter_of_tritons_is_refused_on_reading(name, artefact):
    path = artefact / MANIFEST_NAME
    path.write_text(changed(path.read_text(), details={name: "$$TRITON_MODEL_DIRECTORY/1/env.data"}))
    with pytest.raises(ArtefactError, match=r"names of details in lower case.* in the manifest of 'digits'"):
        Manifest.read(artefact)


@pytest.mark.parametrize("sha256", ["", "0" * 63, "0" * 65, "G" * 64, "0" * 64 + "\n"])
def test_what_is_no_hash_is_refused_on_reading(sha256, artefact):
    path = artefact / MANIFEST_NAME
    path.write_text(changed(path.read_text(), files={"model.onnx": sha256}))
    with pytest.raises(ArtefactError, match=r"a SHA-256 of model\.onnx"):
        Manifest.read(artefact)


@pytest.mark.planted
@pytest.mark.parametrize("place", ["graph", "lowered"])
def test_a_graph_that_no_hash_holds_is_refused(place, artefact):
    path = artefact / MANIFEST_NAME
    value = json.loads(path.read_text())
    if place == "graph":
        del value["files"]["model.onnx"]
    else:
        value["lowered"] = [record_to_json(Lowered(graph="model", target="ort-cpu", file="other.onnx"))]
    path.write_text(json.dumps(value))
    with pytest.raises(ArtefactError, match=r"a hash of every graph .*; found 'none of "):
        Manifest.read(artefact).verify(artefact)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("bytes_per_weight",), "4"),
        (("bytes_per_weight",), 0),
        (("graphs", 0, "inputs", 0, "axes"), "batch"),
        (("form",), "code"),
    ],
)
def test_a_value_of_another_type_is_refused_by_its_place(path, value, artefact):
    file = artefact / MANIFEST_NAME
    manifest = json.loads(file.read_text())
    place = manifest
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    file.write_text(json.dumps(manifest))
    with pytest.raises(ArtefactError, match=str(path[-1]) if len(path) == 1 else r"graphs\[\.*0?"):
        Manifest.read(artefact)


def decoder(vocabulary):
    logits = TensorSpec(name="logits", dtype="float32", axes=("batch", "steps", vocabulary))
    return (GraphSignature(name="decoder", inputs=(), outputs=(logits,)),)


@pytest.mark.planted
@pytest.mark.parametrize(
    "details",
    [
        {"suppressed_tokens": [0, 1, 2, 3]},
        {"suppressed_tokens": [0, 1, 2], "end_token": 3},
        {"suppressed_tokens": [4]},
        {"suppressed_tokens": [-1]},
        {"suppressed_tokens": "all"},
        {"suppressed_tokens": [{}]},
        {"forced_start_token": 4},
        {"forced_start_token": [[]]},
    ],
    ids=str,
)
def test_a_model_that_may_say_nothing_is_refused_where_its_manifest_is_read(details):
    with pytest.raises(ArtefactError, match="suppressed_tokens that leave a token to say"):
        small_manifest(graphs=decoder(4), details=details)


def test_a_model_that_may_say_something_is_taken():
    small_manifest(graphs=decoder(4), details={"suppressed_tokens": [0, 1], "end_tokens": [2], "forced_start_token": 3})


def test_a_manifest_that_is_nested_too_deep_is_refused(artefact):
    (artefact / MANIFEST_NAME).write_text('{"format": ' + "[" * 10_000 + "]" * 10_000 + "}")
    with pytest.raises(ArtefactError, match="nested too deep"):
        Manifest.read(artefact)
