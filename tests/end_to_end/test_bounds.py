"""A request that is larger than its graph was made for, before a real Triton: refused by name and bound."""

import asyncio

import numpy as np
import pytest

from clients.predict import Predictor
from clients.triton_client import TritonClient
from export.stage import export_onnx
from models.errors import InputError
from tests.end_to_end.test_imported import served
from tests.models.checkpoints.own_models import own_file


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    place = tmp_path_factory.mktemp("bounds")
    export_onnx(str(own_file(place)), place / "artefacts" / "pooled")
    with served(place, ["pooled"]) as grpc:
        yield grpc


def mixed(server, rows, length):
    async def ask():
        async with TritonClient(server) as client:
            predictor = await Predictor.find(client)
            return await predictor.predict(
                {"readings": np.ones((rows, length, 8)), "valid": np.ones((rows, length), dtype=bool)}
            )

    return asyncio.run(ask())["mixed"]


def test_a_request_of_the_largest_sizes_is_answered(server):
    assert mixed(server, 32, 12).shape == (32, 8)


def test_a_request_that_is_too_long_is_the_clients_mistake_by_name_and_bound(server):
    with pytest.raises(InputError, match=r"at most 12 along axis 'time' of 'readings'; found 13; .*split the request"):
        mixed(server, 1, 13)


def test_a_request_of_too_many_rows_is_refused_by_the_batcher(server):
    with pytest.raises(InputError, match="<= 32"):
        mixed(server, 33, 12)
