"""Tensors of bfloat16, which NumPy has not by itself, on their way to Triton and back."""

import asyncio

import ml_dtypes
import numpy as np
from tritonclient.grpc import InferResult, service_pb2
from tritonclient.grpc import model_config_pb2 as pb

from clients.load.infer_message import read_array
from clients.predict import Predictor
from clients.served_model import ServedModel
from clients.tensors import create_tensor, read_arrays

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
VALUES = [[1.0, -2.5, 3.140625], [1e30, -0.0, 2.0**-126]]


class Server:
    """In a client's place: it keeps the tensors of a request, and returns them."""

    async def infer(self, model, arrays):
        self.sent = {name: create_tensor(name, array) for name, array in arrays.items()}
        response = service_pb2.ModelInferResponse()
        for name, tensor in self.sent.items():
            response.outputs.add(name=name, datatype=tensor.datatype(), shape=tensor.shape())
            response.raw_output_contents.append(tensor._get_content())
        return read_arrays(InferResult(response))


def test_numbers_are_sent_as_bf16_and_come_back_as_they_were():
    config = pb.ModelConfig(name="narrow", backend="tensorrt", max_batch_size=8)
    config.input.add(name="x", data_type=pb.TYPE_BF16, dims=[3])
    server = Server()
    answer = asyncio.run(Predictor(server, ServedModel.from_config("narrow", config)).predict({"x": VALUES}))
    assert server.sent["x"].datatype() == "BF16" and len(server.sent["x"]._get_content()) == 12
    assert answer["x"].dtype == BFLOAT16
    np.testing.assert_array_equal(answer["x"], np.array(VALUES, BFLOAT16))


def test_a_load_tests_reader_knows_them_too():
    sent = np.array(VALUES, BFLOAT16)
    np.testing.assert_array_equal(read_array("BF16", (2, 3), sent.tobytes()), sent)
