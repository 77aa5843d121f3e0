import dataclasses
import json
import shutil
from pathlib import Path

import onnx
import pytest

from attendant.errors import ExportError, UnknownNameError
from attendant.manifest import Manifest, sha256_of
from export.targets.check import require_valid, validate_for_target
from export.targets.report import print_checks
from export.targets.targets import TARGETS
from tests.run_here import run_here

# Shared among all tests; tests/export/test_families.py holds its own presets to TensorRT.
ARTEFACTS = (
    "digits_artefact",
    "dates_artefact",
    "captioner_artefact",
    "explained_dates",
    "language_model",
    "text_encoder",
)


TENSORRT = "decoder.tensorrt.onnx"


def violations(folder, target):
    _, checks = validate_for_target(folder, target)
    return [(one.graph, one.constraint.name, violation.node) for one in checks for violation in one.violations]


@pytest.mark.parametrize("artefact", ARTEFACTS)
@pytest.mark.parametrize("target", ["tensorrt", "tensorrt-10.16", "ort-cpu", "ort-cuda"])
def test_an_exported_artefact_keeps_every_constraint(artefact, target, request):
    assert violations(request.getfixturevalue(artefact), target) == []


def test_openvino_reads_the_encoder_and_no_cached_decoder(tiny_translator):
    found = violations(tiny_translator, "openvino-cpu")
    assert {(graph, name) for graph, name, _ in found} == {("decoder", "operator")}
    assert all(node.endswith("(TensorScatter)") for *_, node in found)


@pytest.mark.planted
def test_a_swapped_cache_pair_is_caught_at_both_nodes(tiny_translator, tmp_path):
    folder = shutil.copytree(tiny_translator, tmp_path / "artefact")
    model = onnx.load(folder / TENSORRT)
    scatters = [node for node in model.graph.node if node.op_type == "TensorScatter"]
    keys = [node for node in scatters if "key" in node.input[0]]
    keys[0].input[0], keys[1].input[0] = keys[1].input[0], keys[0].input[0]
    onnx.save(model, folder / TENSORRT)
    hashed_again(folder)
    assert violations(folder, "tensorrt") == [
        ("decoder", "cache-pair", f"{node.name} (TensorScatter)") for node in scatters if node in keys
    ]


def hashed_again(folder):
    manifest = Manifest.read(folder)
    names = [TENSORRT, *(path.name for path in folder.glob("*.onnx.data"))]
    hashes = {name: sha256_of(folder / name) for name in names}
    dataclasses.replace(manifest, files={**manifest.files, **hashes}).write(folder)


def test_weights_in_another_file_need_not_be_read(tiny_translator, tmp_path):
    folder = shutil.copytree(tiny_translator, tmp_path / "artefact")
    model, data = onnx.load(folder / TENSORRT), f"{TENSORRT}.data"
    onnx.save(model, folder / TENSORRT, save_as_external_data=True, location=data, size_threshold=256)
    (folder / data).write_bytes(b"none")
    hashed_again(folder)
    assert violations(folder, "tensorrt") == []


def test_the_error_names_graph_node_and_source(tiny_translator):
    target, checks = validate_for_target(tiny_translator, "openvino-cpu")
    with pytest.raises(ExportError, match=r"graph decoder, at \w+ \(TensorScatter\).* and 3 more"):
        require_valid(target, checks)


def test_an_unknown_target_is_refused_by_name(tiny_translator):
    with pytest.raises(UnknownNameError, match=r"unknown target 'tensorflow'; did you mean 'tensorrt.*"):
        validate_for_target(tiny_translator, "tensorflow")


def test_the_command_prints_every_constraint_and_its_status_is_the_verdict(tiny_translator):
    kept, broken = (check(tiny_translator, target) for target in ("tensorrt", "openvino-cpu"))
    assert (kept.returncode, broken.returncode) == (0, 1), kept.stderr
    asked = {(one["graph"], one["constraint"]) for one in json.loads(kept.stdout)}
    assert asked == {(graph, name) for graph in ("encoder", "decoder") for name in TARGETS["tensorrt"].constraints}
    assert "TensorScatter" in broken.stderr


def test_people_are_shown_violations_and_how_many_constraints_hold(tiny_translator, capsys):
    print_checks("tiny", *validate_for_target(tiny_translator, "tensorrt"))
    kept, count = capsys.readouterr().out, 2 * len(TARGETS["tensorrt"].constraints)
    assert kept.startswith(f"tiny: {count} of {count} constraints hold in decoder, encoder for TensorRT 11")
    assert len(kept.splitlines()) == 1
    print_checks("tiny", *validate_for_target(tiny_translator, "openvino-cpu"))
    shown = capsys.readouterr().out
    assert shown.count("(TensorScatter)") == 4 and "opset" not in shown


def test_the_documentation_lists_every_target_and_every_constraint_of_tensorrt():
    text = (Path(__file__).parents[3] / "docs" / "reference" / "targets.md").read_text()
    names = [*TARGETS, *TARGETS["tensorrt"].constraints]
    assert [name for name in names if f"`{name}`" not in text] == []


def check(folder, target):
    return run_here("export", "check", folder, "--target", target, "--json")
