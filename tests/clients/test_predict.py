"""What a custom model is sent: held against its contract, and converted without making more of it than it is."""

import asyncio
import tracemalloc

import numpy as np
import pytest
from tritonclient.grpc import model_config_pb2 as pb

from attendant.errors import InputError
from clients.predict import Predictor
from clients.served_model import ServedModel

TYPES = {
    "x": pb.TYPE_FP32,
    "long": pb.TYPE_INT64,
    "count": pb.TYPE_INT8,
    "wide": pb.TYPE_UINT64,
    "name": pb.TYPE_STRING,
}


class Client:
    """In a client's place: it keeps what it is to send."""

    async def infer(self, model, arrays):
        self.sent = arrays
        return arrays


def sent(value, name="x", dims=(2,), max_batch=8):
    config = pb.ModelConfig(name="m", max_batch_size=max_batch)
    config.input.add(name=name, data_type=TYPES[name], dims=dims)
    client = Client()
    asyncio.run(Predictor(client, ServedModel.from_config("m", config)).predict({name: value}))
    return client.sent[name]


@pytest.mark.parametrize(
    ("value", "options", "array"),
    [
        ([[1, 2.5], [True, 4]], {}, np.array([[1, 2.5], [1, 4]], np.float32)),
        (((1, 2),), {}, np.array([[1, 2]], np.float32)),
        ([np.array([1, 2]), np.array([3, 4])], {}, np.array([[1, 2], [3, 4]], np.float32)),
        ([[], []], {"dims": [-1]}, np.zeros((2, 0), np.float32)),
        ([[2.0, 2**53 + 1]], {"name": "long"}, np.array([[2, 2**53 + 1]])),
        ([[10**20, 1]], {}, np.array([[1e20, 1]], np.float32)),
        ([[1, -1]], {"name": "count"}, np.array([[1, -1]], np.int8)),
        ([[2**63 + 1, 1]], {"name": "wide"}, np.array([[2**63 + 1, 1]], np.uint64)),
        ([[2**64 - 1, 0.0]], {"name": "wide"}, np.array([[2**64 - 1, 0]], np.uint64)),
        ([["a", "☃"]], {"name": "name"}, np.array([["a", "☃"]], object)),
        (np.array([["a", "b"]]), {"name": "name"}, np.array([["a", "b"]], object)),
        ([1, 2], {"max_batch": 0}, np.array([1, 2], np.float32)),
        (np.ones((8, 100_000), np.uint8), {"dims": [-1]}, np.ones((8, 100_000), np.float32)),
    ],
)
def test_rows_become_arrays_of_the_models_type(value, options, array):
    found = sent(value, **options)
    assert found.dtype == array.dtype and found.shape == array.shape and found.tolist() == array.tolist()


@pytest.mark.parametrize(
    ("value", "options", "message"),
    [
        ([[1, "2"]], {}, "rows of numbers of equal lengths for 'x'; found a text"),
        (["ab"], {}, "found a text"),
        ("ab", {}, "found a text"),
        ([[1, None]], {}, "found null"),
        ([[1, {}]], {}, "found an object"),
        ({"a": 1}, {}, "found an object"),
        (5, {}, r"an array of \[batch <= 8, 2\] for 'x'; found \[\]"),
        (np.array(5), {}, r"found \[\]"),
        ([[1, 2], [3]], {}, "found lists of 1 and of 2 values"),
        ([[1, 2], 3], {}, "found a value beside a list"),
        ([1, [2, 3]], {}, "found a list beside a value"),
        ([[1, 300]], {"name": "count"}, "a number that is none of int8"),
        ([[1, 1.5]], {"name": "count"}, "a number that is none of int8"),
        ([[-1, 2**63]], {"name": "long"}, "a number that is none of int64"),
        ([[-1, 2**63]], {"name": "wide"}, "a number that is none of uint64"),
        ([[1.0, 300]], {"name": "count"}, "a number that is none of int8"),
        ([[1, 1e39]], {}, "overflow"),
        ([[1, 10**30]], {"name": "count"}, "a number that is none of int8"),
        ([["a", 1]], {"name": "name"}, "rows of texts of equal lengths for 'name'; found a value of type int"),
        (np.ones((1, 2)), {"name": "name"}, "values of float64"),
        (np.array([["1", "2"]]), {}, "values of <U1"),
    ],
)
def test_what_is_no_rows_of_the_models_type_is_refused(value, options, message):
    with pytest.raises(InputError, match=message) as refused:
        sent(value, **options)
    assert refused.value.param == f"inputs.{options.get('name', 'x')}"


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        ((9, 2), {}, r"an array of \[batch <= 8, 2\] for 'x'; found \[9, 2\]"),
        ((1, 3), {}, r"\[batch <= 8, 2\] for 'x'; found \[1, 3\]"),
        ((2,), {}, r"found \[2\]"),
        ((1, 2, 1), {}, r"found \[1, 2, 1\]"),
        ((1, 5, 3), {"dims": [-1, 4]}, r"\[batch <= 8, any, 4\]"),
        ((3,), {"max_batch": 0}, r"an array of \[2\] for 'x'"),
    ],
)
def test_what_is_of_another_shape_than_the_model_takes_is_refused(shape, options, message):
    with pytest.raises(InputError, match=message) as refused:
        sent(np.zeros(shape), **options)
    assert refused.value.param == "inputs.x"
    with pytest.raises(InputError, match=message):
        sent(np.zeros(shape).tolist(), **options)


@pytest.mark.parametrize(
    "value", [[["a"] * 400 + ["b" * 1_000_000]], np.broadcast_to(np.uint8(0), (1, 1 << 30))], ids=["texts", "zeros"]
)
def test_what_is_refused_takes_no_memory(value):
    tracemalloc.start()
    try:
        with pytest.raises(InputError):
            sent(value)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
