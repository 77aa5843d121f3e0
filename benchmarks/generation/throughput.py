"""Tokens per second of so many sequences in flight, in process and behind Triton.

Counted from the moment when every sequence has its first token, so that prompts are not in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
from tritonclient.grpc import aio

from attendant.sampling_params import SamplingParams
from benchmarks.generation.asking import ask
from benchmarks.generation.engines import Timed
from benchmarks.generation.tensors import request_tensors
from serving.engine.engine import Engine
from serving.engine.text_generation_model import TextGenerationModel

PROMPT = 32


def prompt_of(rng: np.random.Generator, length: int, below: int) -> list[int]:
    """Random tokens."""
    return [int(token) for token in rng.integers(3, below, length)]


def exactly(count: int) -> SamplingParams:
    """Greedy decoding of exactly so many tokens."""
    return SamplingParams(max_tokens=count, ignore_eos=True)


def rate_in_process(model: TextGenerationModel, engine: Engine, flights: int, count: int, seed: int) -> float:
    """Tokens per second.

    Args:
        model: that checks requests.
        engine: that answers them, stepped in this thread.
        flights: sequences at once.
        count: tokens of each.
        seed: of their prompts.
    """
    rng, below = np.random.default_rng(seed), model.vocabulary_size
    sinks = [Timed() for _ in range(flights)]
    for sink in sinks:
        engine.submit(model.request(prompt_of(rng, PROMPT, below), exactly(count)), sink)
    while not engine.is_idle:
        engine.step()
    return _rate([sink.times_s for sink in sinks])


async def rate_served(server: str, name: str, below: int, flights: int, count: int, seed: int) -> float:
    """Tokens per second of as many streams; NaN where the last one's all came at once.

    Args:
        server: its gRPC address.
        name: of the model.
        below: its vocabulary.
        flights: streams at once.
        count: tokens of each.
        seed: of their prompts.
    """
    rng = np.random.default_rng(seed)
    client = aio.InferenceServerClient(server)
    try:
        tensors = [request_tensors(prompt_of(rng, PROMPT, below), exactly(count), True) for _ in range(flights)]
        heard = await asyncio.gather(*(ask(client, name, one) for one in tensors))
    finally:
        await client.close()
    assert {one.outcome for one in heard} == {"answered"}, [one.error for one in heard]
    return _rate([one.token_times_s for one in heard])


def _rate(times_s: Sequence[Sequence[float]]) -> float:
    began = max(one[0] for one in times_s)
    ended = max(one[-1] for one in times_s)
    if ended == began:
        return float("nan")  # all of the last stream in one response, behind the others
    return sum(time > began for one in times_s for time in one) / (ended - began)
