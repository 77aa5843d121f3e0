"""Requests as bytes: what protobuf's own reader finds in them."""

import asyncio

import ml_dtypes
import numpy as np
import pytest
from tritonclient.grpc import InferResult, service_pb2

from attendant.errors import InputError
from clients.tensors import create_message, create_tensor, read_response

ARRAYS = {
    "floats": np.arange(6, dtype=np.float32).reshape(2, 3),
    "columns": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "none": np.zeros((2, 0), np.uint8),
    "narrow": np.ones((1, 3), ml_dtypes.bfloat16),
    "texts": np.array([["a", b"\xff", ""]], object),
    "no texts": np.zeros((0,), object),
    "seven bits": np.zeros((1, 127), np.uint8),
    "eight bits": np.zeros((1, 128), np.uint8),
    "large": np.arange(1 << 18, dtype=np.int64)[None],
}


def message_of(inputs, outputs=(), parameters=None):
    return asyncio.run(create_message("m", inputs, outputs, parameters or {}, "id"))


@pytest.mark.parametrize("name", ARRAYS)
def test_a_message_holds_its_tensors_as_tritonclients_does(name):
    read = service_pb2.ModelInferRequest.FromString(message_of({"first": np.ones(1), name: ARRAYS[name]}))
    tensor = create_tensor(name, ARRAYS[name])
    assert read.inputs[1] == tensor._get_tensor() and read.raw_input_contents[1] == tensor._get_content()
    assert (read.model_name, read.id, len(read.raw_input_contents)) == ("m", "id", 2)


def test_it_names_outputs_and_holds_parameters_of_four_types():
    parameters = {"explain": True, "count": 3, "share": 0.5, "key": "a"}
    read = service_pb2.ModelInferRequest.FromString(message_of({"x": np.ones(1)}, ["y", "z"], parameters))
    assert [output.name for output in read.outputs] == ["y", "z"]
    found = read.parameters
    assert (found["explain"].bool_param, found["count"].int64_param) == (True, 3)
    assert (found["share"].double_param, found["key"].string_param) == (0.5, "a")
    with pytest.raises(InputError, match="the parameter 'odd'"):
        message_of({"x": np.ones(1)}, parameters={"odd": [1]})


@pytest.mark.parametrize("count", [2, 1 << 18])
def test_a_response_is_read_whatever_its_size(count):
    response = service_pb2.ModelInferResponse()
    response.outputs.add(name="y", datatype="FP32").shape.extend([count])
    response.raw_output_contents.append(np.arange(count, dtype=np.float32).tobytes())
    found = asyncio.run(read_response(response))
    np.testing.assert_array_equal(found["y"], InferResult(response).as_numpy("y"))
