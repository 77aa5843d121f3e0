"""What `attendant serve` does before workers wait for it."""

import sys

import pytest

from serving.runtime.ort.kernels import library
from serving.verbs import _compile_operators


@pytest.mark.parametrize(("graph", "compiles"), [("decoder.attendant-cpu.onnx", True), ("decoder.ort-cpu.onnx", False)])
def test_operators_that_a_model_names_are_compiled_ahead_and_for_longer(graph, compiles, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(library, "kernels", lambda **how: asked.append(how["say"]))
    (tmp_path / "mine/1").mkdir(parents=True)
    (tmp_path / "mine/1" / graph).touch()
    _compile_operators(tmp_path)
    assert asked == [sys.stderr.write] * compiles and library.AHEAD_S > 60.0 > library.WORKER_S
