from dataclasses import replace

import numpy as np
import pytest

from attendant.errors import InputError, MachineError
from attendant.signature import Axis, GraphSignature, TensorSpec
from serving.engine.predictor import predict
from serving.runtime.ort.runner import OrtBuffer, ort

FAILING = -7.0


class Doubling:
    """A runner that doubles, and remembers the shapes that it was given."""

    def __init__(self, error=None):
        self.error = error
        axes = ("batch", "time")
        self.signature = GraphSignature(
            name="model",
            inputs=(
                TensorSpec(name="x", dtype="float32", axes=axes),
                TensorSpec(name="m", dtype="bool", axes=axes),
            ),
            outputs=(TensorSpec(name="y", dtype="float32", axes=axes),),
            axes={"time": Axis(opt=4, max=8)},
        )
        self.shapes = []

    def run(self, feeds):
        if (feeds["x"] == FAILING).any():
            raise self.error
        self.shapes.append(feeds["x"].shape)
        self.made = 2 * feeds["x"] * feeds["m"]  # whose memory the value below has
        return {"y": OrtBuffer(ort.OrtValue.ortvalue_from_numpy(self.made))}


def request(rows, length, seed=0):
    x = np.random.default_rng([rows, length, seed]).standard_normal((rows, length)).astype(np.float32)
    return {"x": x, "m": np.ones((rows, length), dtype=bool)}


def test_requests_of_the_same_lengths_are_one_run_and_each_gets_its_own_rows():
    runner, requests = Doubling(), [request(1, 3), request(2, 5), request(2, 3, seed=1), request(1, 5)]
    answers = predict(runner, requests, {})
    assert sorted(runner.shapes) == [(3, 3), (3, 5)]
    for asked, answer in zip(requests, answers, strict=True):
        np.testing.assert_array_equal(answer["y"], 2 * asked["x"])


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({**request(1, 3), "x": np.zeros((1, 3))}, "tensor 'x' of type float32"),
        (request(1, 9), "at most 8 along axis 'time' of 'x'; found 9;"),
        ({**request(1, 3), "m": np.ones((1, 4), dtype=bool)}, "the same 'time' in every input, 3"),
        ({**request(1, 3), "m": np.ones((2, 3), dtype=bool)}, "the same 'batch' in every input, 1"),
    ],
)
def test_a_bad_request_earns_its_own_error_and_does_not_touch_the_others(bad, message):
    first, error, last = predict(Doubling(), [request(1, 3), bad, request(1, 4)], {})
    assert isinstance(error, InputError)
    with pytest.raises(InputError, match=message):
        raise error
    assert first["y"].shape == (1, 3) and last["y"].shape == (1, 4)


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (RuntimeError("Gather"), InputError, "numbers that the model can compute with; found RuntimeError: Gather"),
        (RuntimeError("Failed to allocate memory"), MachineError, "a run of the graph; found RuntimeError: Failed"),
        (MemoryError(), MachineError, "a run of the graph; found MemoryError"),
    ],
)
def test_a_run_that_fails_is_the_error_of_the_request_that_makes_it_fail(error, kind, message):
    runner, bad = Doubling(error), request(2, 3, seed=1)
    bad["x"][1, 1] = FAILING
    first, error, last = predict(runner, [request(1, 3), bad, request(1, 3, seed=2)], {})
    assert first["y"].shape == last["y"].shape == (1, 3) and len(runner.shapes) == 2
    with pytest.raises(kind, match=message):
        raise error


class Seeing(Doubling):
    """A runner that remembers the bytes of truth values, which graphs calculate with."""

    def run(self, feeds):
        self.seen = feeds["m"].view(np.uint8).tolist()
        return super().run(feeds)


def test_any_truth_value_but_0_is_1():
    runner, asked = Seeing(), request(1, 3)
    asked["m"] = np.array([[0, 7, 1]], np.uint8).view(bool)
    predict(runner, [asked], {})
    assert runner.seen == [[0, 1, 1]]


class Looking(Doubling):
    """A runner that takes integers for a table."""

    def __init__(self):
        spec = TensorSpec(name="ids", dtype="int64", axes=("batch", 2))
        self.signature = GraphSignature(name="model", inputs=(spec,), outputs=(replace(spec, name="y"),))

    def run(self, feeds):
        assert ((feeds["ids"] >= 0) & (feeds["ids"] < 7)).all()
        return {"y": OrtBuffer(ort.OrtValue.ortvalue_from_numpy(feeds["ids"]))}


@pytest.mark.parametrize("index", [7, 99, -1, 1 << 62, -(1 << 62)])
def test_an_index_outside_of_the_table_is_that_requests_error_alone(index):
    good, bad = {"ids": np.array([[0, 6]])}, {"ids": np.array([[1, index]])}
    first, error = predict(Looking(), [good, bad], {"ids": 7})
    assert first["y"].tolist() == [[0, 6]]
    with pytest.raises(InputError, match=f"ids from 0 to 6; found {index};"):
        raise error
