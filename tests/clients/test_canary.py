"""What a model that behaves oddly is judged to be."""

import asyncio

import numpy as np
import pytest

from attendant.errors import ServerError
from clients.canary import check_answer, engine_health
from clients.served_model import ServedModel

TRANSLATOR = {"task": "translate", "example": {"inputs": {"text": "a"}, "answer": "b"}}


def served(instances, **parameters):
    return ServedModel(
        name="odd",
        decoupled=True,
        max_batch=0,
        inputs={},
        outputs={},
        dtypes={},
        parameters=parameters or TRANSLATOR,
        instances=instances,
    )


class EmptyStreams:
    """A client whose streams end without a response."""

    timeout_s, server = 1.0, ""

    async def stream(self, *args, **kwargs):
        for nothing in ():
            yield nothing


def test_a_stream_without_a_response_is_a_wrong_answer():
    result = asyncio.run(check_answer(EmptyStreams(), served(instances=2)))
    assert (result.right, result.found) == (False, "an end without an answer")


@pytest.mark.parametrize(("answer", "right"), [([7, 8], True), ([7, 9], False)])
def test_tokens_are_judged_where_the_example_is_of_tokens(answer, right):
    client = Tokens()
    example = {"inputs": {"input_ids": [5, 6], "max_tokens": 2}, "answer": answer}
    result = asyncio.run(check_answer(client, served(2, task="generate", example=example, token_ids_only=True)))
    assert (result.right, result.found) == (right, "[7, 8]")
    assert client.asked["input_ids"].tolist() == [[5, 6]]


def test_a_model_without_a_tokenizer_or_an_example_is_asked_a_token():
    client = Tokens()
    assert asyncio.run(check_answer(client, served(2, task="generate", token_ids_only=True))).right
    assert client.asked["input_ids"].tolist() == [[0]]


class Tokens(EmptyStreams):
    """Says two tokens."""

    server = "here"

    async def stream(self, name, inputs, *args, **kwargs):
        self.asked = inputs
        ids, text = np.array([[7, 8]], np.int32), np.array([[b""]], object)
        yield {"text_output": text, "finish_reason": np.array([[b"length"]], object), "output_ids": ids}


@pytest.mark.parametrize(
    ("within", "size", "off", "right"),
    [
        ({}, 1.0, 5e-4, True),
        ({}, 1.0, 0.1, False),
        ({}, 350_000.0, 0.06, True),
        ({}, 350_000.0, 400.0, False),
        ({"within": 0.5}, 1.0, 0.1, True),
        ({"within": 0.5}, 1.0, 0.9, False),
    ],
)
def test_values_may_be_off_by_what_the_example_says_and_by_what_float32_is(within, size, off, right):
    answer = {"y": [size, -size], "label": [3]}
    model = ServedModel(
        name="odd",
        decoupled=False,
        max_batch=4,
        inputs={"x": (2,)},
        outputs={"y": (2,), "label": (1,)},
        dtypes={"x": "float32"},
        parameters={"task": "predict", "example": {"inputs": {"x": [1.0, 2.0]}, "answer": answer, **within}},
    )
    label = 4 if within else 3  # of rounded numbers another may be the largest
    result = asyncio.run(check_answer(Values(np.float32([size + off, -size - off]), label), model))
    assert result.right is right


def test_whole_numbers_are_right_or_wrong():
    model = ServedModel(
        name="odd",
        decoupled=False,
        max_batch=4,
        inputs={"x": (2,)},
        outputs={"label": (1,)},
        dtypes={"x": "float32"},
        parameters={"task": "predict", "example": {"inputs": {"x": [1.0, 2.0]}, "answer": {"label": [5000]}}},
    )
    for label in (5000, 5003):
        result = asyncio.run(check_answer(Values(np.float32([1.0]), label), model))
        assert result.right is (label == 5000)


class Values:
    """A client whose model has one answer."""

    server = "here"

    def __init__(self, y, label):
        self.answer = {"y": y[None], "label": np.int64([[label]])}

    async def infer(self, *args, **kwargs):
        return self.answer


def test_a_stream_without_a_response_is_an_error_of_the_server_that_should_say_its_health():
    with pytest.raises(ServerError, match="found an end without it"):
        asyncio.run(engine_health(EmptyStreams(), served(instances=1)))
