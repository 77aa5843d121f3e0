"""The trial of benchmarks.gpu.decoding on any machine; what it measures here means nothing."""

import json
import sys

import pytest
import torch

from benchmarks.gpu import decoding


@pytest.fixture
def started(monkeypatch):
    def start(*words):
        monkeypatch.setattr(sys, "argv", ["decoding.py", *map(str, words)])
        decoding.main()

    return start


def test_a_trial_has_a_row_for_every_variant_and_is_written_down(started, language_model, tmp_path, capsys):
    started("--quick", "--onnx", language_model, "--out", tmp_path)
    page, found = sorted(tmp_path.iterdir(), key=lambda path: path.suffix == ".json")
    found = json.loads(found.read_text())
    assert page.read_text() in capsys.readouterr().out
    variants = {(row["variant"].split()[0], row["batch"], row["behind"]) for row in found["decoding"]}
    by_torch = {
        (name, batch, behind)
        for name in ("recorded", "products", "library", "not")
        for batch in (1, 2)
        for behind in (16, 64)
    }
    assert variants == by_torch | {("onnxruntime", batch, 16) for batch in (1, 2)}
    assert all(row["step_ms"] > 0 and row["share_of_limit"] > 0 for row in found["decoding"])
    assert "At batch 1, recorded, at least 70% of the limit: missed" in page.read_text()


def test_an_artefact_that_is_too_short_is_said_to_be(started, captioner_artefact, capsys):
    started("--quick", "--onnx", captioner_artefact)
    assert "not here: a cache of 20 positions: it has 8" in capsys.readouterr().out


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_without_a_gpu_nothing_but_a_trial_is_made(started, capsys):
    with pytest.raises(SystemExit, match="2"):
        started()
    assert "expected a GPU that torch sees; found none; try --quick" in capsys.readouterr().err
