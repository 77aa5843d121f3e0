"""What a float32 graph computes: the measure of all its forms, or none at all."""

import numpy as np
import pytest

from attendant.errors import InputError
from export.mixed_precision.feeds import feeds_for
from export.mixed_precision.forms import run_reference
from export.mixed_precision.source import read_source
from tests.export.mixed_precision.small_graphs import write_graph
from tests.export.mixed_precision.test_half import convert, kept_of

LARGE = """
<ir_version: 10, opset_import: ["" : 18]>
agraph (float[n, 4] x) => (float[n, 3] y)
<float c = {1e3}>
{ a = MatMul(x, w)  y = Mul(a, c) }
"""
ROOTS = """
<ir_version: 10, opset_import: ["" : 18]>
agraph (float[n, 4] x) => (float[n, 4] z, float[n, 1] y)
{ z = Tanh(x)  r = Sqrt(x)  y = ReduceMean <keepdims = 1> (r, last) }
"""


@pytest.fixture
def large(tmp_path):
    return write_graph(tmp_path / "large.onnx", LARGE, w=np.full((4, 3), 1e3, np.float32))


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_a_graph_without_a_finite_number_proves_nothing(tmp_path, large, precision):
    for name, number in (("infinite", np.inf), ("negative", -np.inf)):
        np.savez(tmp_path / f"{name}.npz", x=np.full((2, 4), number, np.float32))
        with pytest.raises(InputError, match=r"a finite number in 'y' of .* none in sample 1; give inputs"):
            convert(large, precision, calibration=tmp_path / f"{name}.npz")
    np.savez(tmp_path / "ones.npz", x=np.ones((2, 4), np.float32))
    assert "y" in kept_of(convert(large, calibration=tmp_path / "ones.npz", budget=0.1)[0])


def test_drawn_inputs_that_a_model_is_not_made_for_are_refused(tmp_path):
    path = write_graph(tmp_path / "roots.onnx", ROOTS, last=np.array([1]))
    with pytest.raises(InputError, match=r"a finite number in 'y' of .*--calibration"):
        convert(path)
    np.savez(tmp_path / "positive.npz", x=np.ones((2, 4), np.float32))
    assert convert(path, calibration=tmp_path / "positive.npz")[0].worst < 0.01


def test_some_infinite_numbers_and_empty_values_are_measured(tmp_path, large):
    masked = np.array([[1, 1, 1, 1], [1, -np.inf, 1, 1]], np.float32)
    source = read_source(large)
    reference = run_reference(source, [{"x": masked}, {"x": masked[:0]}], "masked")
    assert np.isinf(reference.values[0]["y"][1]).all() and reference.values[1]["y"].size == 0


def test_numbers_that_an_inputs_type_does_not_hold_are_refused(tmp_path, large):
    np.savez(tmp_path / "wide.npz", x=np.full((2, 4), 1e300))
    with pytest.raises(InputError, match=r"numbers that float32 holds in 'x' of .*wide.npz; found larger ones"):
        feeds_for(read_source(large), tmp_path / "wide.npz", 1, {})
