"""Answers that are large together, though each of a request's numbers is within its bounds."""

import asyncio
import json
import math
import threading

import pytest

from attendant.errors import InputError
from attendant.sampling_params import SamplingParams
from serving.gateway.large_answers import FEW_VALUES, json_response, require_bounded


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
