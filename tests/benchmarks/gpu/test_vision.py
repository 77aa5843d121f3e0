"""The trial of benchmarks.gpu.vision on any machine; what it measures here means nothing."""

import json
import sys

import pytest
import torch

from benchmarks.gpu import vision
from tests.nvidia.engines import with_engines

pytestmark = pytest.mark.slow


@pytest.fixture
def started(monkeypatch):
    def start(*words):
        monkeypatch.setattr(sys, "argv", ["vision.py", *map(str, words)])
        vision.main()

    return start


@pytest.mark.parametrize("preset", ["vit-b-16", "swin-t", "swin-v2-t"])
def test_a_trial_has_a_rate_for_every_variant_and_batch_and_is_written_down(started, tmp_path, capsys, preset):
    started("--quick", "--out", tmp_path, "--preset", preset)
    written, found = sorted(tmp_path.iterdir(), key=lambda path: path.suffix == ".json")
    found = json.loads(found.read_text())
    assert written.read_text() in capsys.readouterr().out
    variants = ("torch runner", "library attention", "the module itself")
    assert {(row["variant"], row["batch"]) for row in found["images"]} == {
        (name, at) for name in variants for at in (1, 2)
    }
    assert all(row["images_per_s"] > 0 for row in found["images"])


def test_onnx_runtime_has_a_row_where_an_artefact_is_given(started, tiny_classifier, capsys):
    started("--quick", "--onnx", tiny_classifier)
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| onnxruntime |")]
    assert all(float(cell) > 0 for cell in row.split("|")[2:4])


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_without_a_gpu_engines_are_refused_by_name_and_nothing_but_a_trial_is_made(
    started, tiny_classifier, tmp_path, capsys
):
    from attendant.errors import MachineError

    with_engines(tiny_classifier, tmp_path / "a")
    with pytest.raises(MachineError, match=r"libcuda|libnvinfer"):
        started("--quick", "--engines", tmp_path / "a")
    with pytest.raises(SystemExit, match="2"):
        started()
    assert "expected a GPU that torch sees; found none; try --quick" in capsys.readouterr().err
