"""What a model that behaves oddly is judged to be."""

import asyncio

import pytest

from attendant.errors import ServerError
from clients.canary import check_answer, engine_health
from clients.served_model import ServedModel

TRANSLATOR = {"task": "translate", "example": {"inputs": {"text": "a"}, "answer": "b"}}


def served(instances):
    return ServedModel(
        name="odd",
        decoupled=True,
        max_batch=0,
        inputs={},
        outputs={},
        dtypes={},
        parameters=TRANSLATOR,
        instances=instances,
    )


class EmptyStreams:
    """A client whose streams end without a response."""

    timeout_s = 1.0

    async def stream(self, *args, **kwargs):
        for nothing in ():
            yield nothing


def test_a_stream_without_a_response_is_a_wrong_answer():
    result = asyncio.run(check_answer(EmptyStreams(), served(instances=2)))
    assert (result.right, result.found) == (False, "an end without an answer")


def test_a_stream_without_a_response_is_an_error_of_the_server_that_should_say_its_health():
    with pytest.raises(ServerError, match="found an end without it"):
        asyncio.run(engine_health(EmptyStreams(), served(instances=1)))
