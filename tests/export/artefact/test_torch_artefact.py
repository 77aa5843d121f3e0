import json
from dataclasses import replace

import pytest
import torch
from safetensors import safe_open

from attendant.errors import ArtefactError, ConfigError, OutputError
from attendant.manifest import Manifest, sha256_of
from export.artefact.stage import export_torch
from export.parity.check import check_parity
from export.parity.parity import levels_of
from export.precision.precisions import precision_named
from export.verbs import check, inspect
from models.checkpoints.resolve import checkpoint_named
from models.checkpoints.store import save_checkpoint
from tests.conftest import DATES, DIGITS
from tests.export.artefact.test_reproduction import run

NARROW = {"fp16": ("F16", "float16"), "bf16": ("BF16", "bfloat16")}


@pytest.fixture(scope="module")
def dates(tmp_path_factory):
    out = tmp_path_factory.mktemp("torch") / DATES
    export_torch(DATES, out, "bf16")
    return out


def test_it_is_a_checkpoint_with_a_manifest_and_no_onnx(dates):
    manifest = Manifest.read(dates)
    assert (manifest.form, manifest.task, manifest.precision, manifest.source) == ("torch", "translate", "bf16", DATES)
    assert manifest.files.keys() == {"config.json", "model.safetensors", "tokenizer.json"}
    manifest.verify(dates)
    assert manifest.example and manifest.details["end_token"]
    assert manifest.graph("decoder").axes["batch"].max == 32


@pytest.mark.parametrize("precision", NARROW)
def test_weights_and_what_is_remembered_are_in_the_type_of_the_precision(precision, tmp_path):
    manifest, _ = export_torch("transformer-tiny", tmp_path / "artefact", precision)
    stored, remembered = NARROW[precision]
    with safe_open(tmp_path / "artefact" / "model.safetensors", framework="pt") as file:
        assert {file.get_slice(name).get_dtype() for name in file.keys()} == {stored}  # noqa: SIM118
    decoder = manifest.graph("decoder")
    types = {spec.name.split("_")[0]: spec.dtype for spec in (*decoder.inputs, *decoder.outputs)}
    assert (types["self"], types["cross"], types["logits"]) == (remembered, remembered, "float32")


def test_its_weights_are_the_checkpoints(tmp_path):
    export_torch("llama-tiny", tmp_path / "artefact")
    found, wanted = (checkpoint_named(name).model for name in (str(tmp_path / "artefact"), "llama-tiny"))
    assert all(torch.equal(tensor, wanted.state_dict()[name]) for name, tensor in found.state_dict().items())


def test_it_is_done_only_where_something_has_changed(dates):
    before = {path.name: path.stat().st_mtime_ns for path in dates.iterdir()}
    manifest, done = export_torch(DATES, dates, "bf16")
    assert not done and manifest == Manifest.read(dates)
    assert {path.name: path.stat().st_mtime_ns for path in dates.iterdir()} == before
    assert export_torch(DATES, dates.with_name("again"), "bf16")[0] == manifest
    assert export_torch(DATES, dates.with_name("again"), "fp16")[1], "another precision is another artefact"


@pytest.mark.slow
def test_its_script_makes_it_again_and_compares_the_hashes(dates, tmp_path):
    made = run(dates / "reproduce.sh", tmp_path / "again")
    assert made.returncode == 0, made.stderr
    assert "model.safetensors: OK" in made.stdout


def test_what_cannot_be_made_leaves_everything_as_it_was(tmp_path):
    with pytest.raises(ConfigError, match=r"\['fp32', 'fp16', 'bf16'\]; found 'int8'"):
        export_torch("vit-tiny", tmp_path / "out", "int8")
    (tmp_path / "own.py").write_text(OWN)
    with pytest.raises(ConfigError, match=r"own\.py; export it with `attendant export onnx`"):
        export_torch(str(tmp_path / "own.py"), tmp_path / "out")
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "letter.txt").write_text("dear all")
    with pytest.raises(OutputError, match="choose another --out"):
        export_torch("vit-tiny", tmp_path / "others")
    assert {path.name for path in tmp_path.iterdir()} - {"__pycache__"} == {"others", "own.py"}


OWN = """
import torch
from attendant.custom_model import Contract, CustomModel, TensorSpec

def model():
    x = TensorSpec(name="x", dtype="float32", axes=("batch", 2))
    y = TensorSpec(name="y", dtype="float32", axes=("batch", 3))
    return CustomModel(name="own", module=torch.nn.Linear(2, 3), contract=Contract(inputs=(x,), outputs=(y,)))
"""


def test_a_damaged_one_is_told_how_to_make_it_again(dates, tmp_path):
    folder = tmp_path / "damaged"
    save_checkpoint(checkpoint_named(str(dates)), folder)
    text = json.loads((dates / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(text))
    with pytest.raises(ArtefactError, match=f"attendant export torch {DATES} --out"):
        Manifest.read(folder).verify(folder)


def test_verbs_about_graphs_say_that_it_has_none(dates):
    for verb in (lambda: inspect(dates), lambda: check(dates, target="tensorrt")):
        with pytest.raises(ArtefactError, match=r"ONNX graphs in .*; found an artefact of `export torch`"):
            verb()


@pytest.mark.parametrize("name", ["llama-tiny", "transformer-tiny", "lstm-seq2seq-tiny", "captioner-vit-gpt2-tiny"])
@pytest.mark.parametrize(
    "precision", ["bf16", *(pytest.param(one, marks=pytest.mark.slow) for one in ("fp32", "fp16"))]
)
def test_the_parity_check_holds_what_serves_it_to_the_tolerance_of_its_precision(name, precision, tmp_path):
    export_torch(name, tmp_path, precision)
    levels = levels_of(check_parity(tmp_path), precision_named(precision))
    wanted = f"torch {'float32' if precision == 'fp32' else precision}"
    assert {level.name.removeprefix("cached ") for level in levels} == {"eager float32", "eager float64", wanted}
    assert [level for level in levels if not level.passed] == []


@pytest.mark.planted
def test_the_parity_check_sees_one_weight_that_differs(tmp_path):
    export_torch("llama-tiny", tmp_path)
    checkpoint = checkpoint_named(str(tmp_path))
    checkpoint.model.blocks[1].attention.key.weight[0, 0] += 0.1
    save_checkpoint(checkpoint, tmp_path)
    manifest = Manifest.read(tmp_path)
    replace(manifest, files={name: sha256_of(tmp_path / name) for name in manifest.files}).write(tmp_path)
    failed = [level.name for level in levels_of(check_parity(tmp_path)) if not level.passed]
    assert failed == ["cached torch float32"]


def test_what_is_left_of_a_trained_model_is_measured_as_it_is_served(tmp_path, capsys):
    export_torch(DIGITS, tmp_path, "bf16")
    assert check(tmp_path, json=True) == 0
    quality = json.loads(capsys.readouterr().out)["quality"]
    assert [form["form"] for form in quality["forms"]] == ["served"]
    assert quality["verdicts"] and all(verdict["passed"] for verdict in quality["verdicts"])
    assert quality["forms"][0]["agreements"]["logits"]["drift"] > 1e-5, "it is not float32"
