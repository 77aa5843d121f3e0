"""Answers that are large together, though each of a request's numbers is within its bounds."""

import asyncio
import json
import math
import threading

import numpy as np
import pytest

from attendant.errors import InputError
from attendant.sampling_params import SamplingParams
from serving.gateway import large_answers
from serving.gateway.budgets import Budget
from serving.gateway.errors import RefusedError
from serving.gateway.large_answers import (
    FEW_VALUES,
    PART_VALUES,
    SLICE_BYTES,
    LargeResponse,
    count_values,
    json_response,
    require_bounded,
)
from serving.gateway.logprobs import LOGPROB_VALUES
from serving.gateway.middleware.access import FREE_BYTES


@pytest.mark.parametrize(
    ("prompts", "options", "parameters"),
    [
        (64, {"max_tokens": 2048}, {"max_length": 4096}),
        (1, {"n": 32, "temperature": 1}, {"max_length": 8192}),
        (16, {"logprobs": True, "top_logprobs": 20, "max_tokens": 10**6}, {"max_length": 1024}),
        (1, {}, {}),  # it is no model that generates
        (1, {"explain": True}, {"max_target_length": 512, "max_source_length": 512}),
    ],
)
def test_ordinary_requests_are_let_through(prompts, options, parameters):
    require_bounded(prompts, SamplingParams(**options), parameters)


@pytest.mark.parametrize(
    ("prompts", "options", "parameters", "found"),
    [
        (
            16,
            {"n": 16, "temperature": 1, "logprobs": True, "top_logprobs": 20, "max_tokens": 200},
            {"max_length": 256},
            "256 answers of up to 200 tokens with 22 values each",
        ),
        (64, {"n": 32, "temperature": 1}, {"max_length": 257}, "2048 answers of up to 257 tokens with 1 values each"),
        (1, {"n": 4, "temperature": 1, "explain": True}, {"max_target_length": 512}, "with 1025 values each"),
    ],
)
def test_what_is_too_much_together_is_refused_with_what_to_send_less_of(prompts, options, parameters, found):
    with pytest.raises(InputError, match=found + ".*stream them, or send less of max_tokens, n, prompts or logprobs"):
        require_bounded(prompts, SamplingParams(**options), parameters)


def test_a_chats_log_probabilities_count_for_more():
    options = SamplingParams(logprobs=True, top_logprobs=20, max_tokens=10_000)
    require_bounded(1, options, {"max_length": 20_000})
    with pytest.raises(InputError, match="1 answers of up to 10000 tokens with 85 values each"):
        require_bounded(1, options, {"max_length": 20_000}, logprob_values=LOGPROB_VALUES)


def test_large_answers_become_json_beside_the_event_loop():
    threads = []

    def value():
        threads.append(threading.current_thread())
        return {"text": "naïve ☃", "values": [0.1, 1e-9, math.nan]}

    small = asyncio.run(json_response(value, FEW_VALUES))
    large = asyncio.run(json_response(value, FEW_VALUES + 1))
    assert threads[0] is threading.main_thread() is not threads[1]
    assert small.body == large.body and large.media_type == "application/json"
    assert json.loads(small.body) == {"text": "naïve ☃", "values": [0.1, 1e-9, None]}


@pytest.mark.parametrize(
    "array",
    [
        np.arange(100_000, dtype=np.float32),
        np.arange(100_000).reshape(2, 25_000, 2),
        np.arange(100_000).reshape(2, 1, 50_000) % 2 == 0,
        np.arange(100_000).reshape(100_000, 1),
        np.zeros((5, 0)),
        np.zeros((0, 30_000, 3)),
        np.array(1.5),
        np.array([b"a" * 500_000, b"\xff"], object),
        np.array([[b"a" * 500_000], [b"b"]]),
    ],
)
def test_arrays_become_json_in_parts_that_hold_the_interpreter_for_some_milliseconds_each(array, monkeypatch):
    counts, to_json = [], large_answers.to_json

    def count(value, **options):
        values = np.array(value).size if isinstance(value, list | np.ndarray) else 1
        counts.append(values)
        return to_json(value, **options)

    monkeypatch.setattr(large_answers, "to_json", count)
    found = asyncio.run(
        json_response(lambda: {"y": array, "z": [array.ndim]}, max(count_values(array), FEW_VALUES + 1))
    )
    expected = [text.decode(errors="replace") for text in array.flat] if array.dtype.kind in "OS" else array.tolist()
    read = json.loads(found.body)
    assert (np.ravel(read["y"]).tolist() if array.dtype.kind in "OS" else read["y"]) == expected
    assert read["z"] == [array.ndim] and max(counts) <= PART_VALUES


def test_lists_of_objects_become_json_in_parts_as_well():
    value = {"data": [{"index": index, "embedding": [0.5] * 5000} for index in range(30)], "usage": {}, "none": []}
    assert json.loads(asyncio.run(json_response(lambda: value, 150_000)).body) == value


def test_lists_without_values_and_long_texts_count():
    assert count_values(np.zeros((1 << 20, 0))) == 1 << 20
    assert count_values(np.array([b"a" * 1600], object)) == 101


@pytest.mark.parametrize("size", [0, 1, SLICE_BYTES, 2 * SLICE_BYTES + 1])
def test_a_large_response_is_sent_in_slices(size):
    body, sent = bytes(range(256)) * (size // 256) + bytes(size % 256), []

    async def send(message):
        sent.append(message)

    asyncio.run(LargeResponse(body, "a/b", Budget(size + 1))({}, None, send))
    start, *parts = sent
    assert dict(start["headers"]) == {b"content-length": str(size).encode(), b"content-type": b"a/b"}
    assert b"".join(part["body"] for part in parts) == body and len(parts) == max(1, math.ceil(size / SLICE_BYTES))
    assert [part["more_body"] for part in parts] == [True] * (len(parts) - 1) + [False]


def test_what_slow_readers_have_not_read_is_bounded_and_counted_until_they_leave():
    async def read_slowly():
        budget = Budget(3 * FREE_BYTES)
        response = LargeResponse(bytes(3 * FREE_BYTES), "a/b", budget)

        async def wait(message):
            await asyncio.Event().wait()

        async def read(message):
            pass

        slow = asyncio.ensure_future(response({}, None, wait))
        await asyncio.sleep(0)
        with pytest.raises(RefusedError, match="wait for their readers") as refused:
            await response({}, None, read)
        assert refused.value.status == 503 and refused.value.headers
        slow.cancel()
        await asyncio.wait([slow])
        await response({}, None, read)
        return budget.used

    assert asyncio.run(read_slowly()) == 0
