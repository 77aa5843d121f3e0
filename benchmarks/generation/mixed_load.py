"""What waiting costs under a mixed load: sequences that are decoded all the time, and prompts that arrive.

TTFT  from the moment when a prompt was to arrive to its first token
ITL   between two tokens of a sequence that is decoded all the time; of these, while a prompt is read
line  chunks of prompts that an arrival finds before its own first token, its own included: the tokens of its prompt
      and of those that still wait for their first token, over the chunk budget, rounded up
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from benchmarks.generation.engines import Timed, written_of
from benchmarks.generation.quiet import Foreign
from benchmarks.generation.throughput import exactly, prompt_of
from serving.engine.engine import Engine
from serving.engine.engine_thread import EngineThread
from serving.engine.settings import EngineSettings
from serving.engine.text_generation_model import TextGenerationModel

SHORTEST, LONGEST = 32, 512  # tokens of a prompt
ANSWER = 16
DECODING, DECODED = 4, 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What one chunk budget made of a load.

    Attributes:
        budget: tokens of prompts in a step.
        chunk_ms: of a whole chunk at the end of the longest prompt, alone; a median, before and after the load.
        decode_ms: of a step that decodes all the sequences that are decoded all the time, alone; likewise.
        first_ms: TTFT of each arrival.
        line: of each arrival.
        prompts: tokens of each arrival.
        between_ms: ITL, of all.
        reading_ms: ITL, of the tokens between which a prompt was waiting or being read.
        foreign: the share of the processors that others used meanwhile.
    """

    budget: int
    chunk_ms: float
    decode_ms: float
    first_ms: list[float]
    line: list[int]
    prompts: list[int]
    between_ms: list[float]
    reading_ms: list[float]
    foreign: float


def mixed(model: TextGenerationModel, budget: int, rate: float, seconds: float, seed: int = 0) -> Waiting:
    """Load an engine.

    Args:
        model: whose runners it uses.
        budget: tokens of prompts in a step.
        rate: of arrivals, a second.
        seconds: for which prompts arrive.
        seed: of arrivals and prompts, so that every budget meets the same.
    """
    settings = EngineSettings(max_num_seqs=16, max_prefill_tokens=budget, prefix_cache_bytes=0)
    engine = Engine(written_of(model), settings)
    before = _alone_ms(model, engine)
    foreign, thread = Foreign(), EngineThread(engine)
    try:
        arrivals, background = _drive(model, engine, rate, seconds, seed)
    finally:
        thread.stop()
    after = _alone_ms(model, engine)
    gaps = [pair for sink in background for pair in pairwise(sink.times_s)]
    reading = [(one.asked_s, one.times_s[0]) for _, one in arrivals]
    return Waiting(
        budget=budget,
        chunk_ms=(before[0] + after[0]) / 2,
        decode_ms=(before[1] + after[1]) / 2,
        first_ms=[1e3 * (sink.times_s[0] - sink.asked_s) for _, sink in arrivals],
        line=_line(arrivals, budget),
        prompts=[length for length, _ in arrivals],
        foreign=foreign.share(),
        between_ms=[1e3 * (after - before) for before, after in gaps],
        reading_ms=[
            1e3 * (after - before)
            for before, after in gaps
            if any(asked < after and before < first for asked, first in reading)
        ],
    )


def _drive(
    model: TextGenerationModel, engine: Engine, rate: float, seconds: float, seed: int
) -> tuple[list[tuple[int, Timed]], list[Timed]]:
    rng, prompts = np.random.default_rng(seed), np.random.default_rng(seed + 1)
    arrivals: list[tuple[int, Timed]] = []
    background: list[Timed] = []
    began = time.monotonic()
    due_s = began + 1.0
    while due_s < began + 1.0 + seconds:
        while time.monotonic() < due_s:
            running = [sink for sink in background if not sink.is_over]
            for _ in range(DECODING - len(running)):
                background.append(_submitted(model, engine, prompts, SHORTEST, DECODED))
            time.sleep(max(0.0, min(0.02, due_s - time.monotonic())))
        length = int(rng.integers(SHORTEST, LONGEST + 1))
        arrivals.append((length, _submitted(model, engine, prompts, length, ANSWER, due_s)))
        due_s += rng.exponential(1 / rate)
    return arrivals, background


def _submitted(
    model: TextGenerationModel,
    engine: Engine,
    rng: np.random.Generator,
    length: int,
    count: int,
    asked_s: float | None = None,
) -> Timed:
    sink = Timed() if asked_s is None else Timed(asked_s=asked_s)
    engine.submit(model.request(prompt_of(rng, length, model.vocabulary_size), exactly(count)), sink)
    return sink


def _line(arrivals: list[tuple[int, Timed]], budget: int) -> list[int]:
    lines = []
    for number, (length, sink) in enumerate(arrivals):
        ahead = sum(other for other, one in arrivals[:number] if one.times_s[0] > sink.asked_s)
        lines.append(math.ceil((length + ahead) / budget))
    return lines


def _alone_ms(model: TextGenerationModel, engine: Engine) -> tuple[float, float]:
    rng = np.random.default_rng(3)
    chunks = []
    for _ in range(5):
        engine.submit(model.request(prompt_of(rng, LONGEST, model.vocabulary_size), exactly(1)), Timed())
        chunks.append(_steps_ms(engine)[-1])
    for _ in range(DECODING):
        _submitted(model, engine, rng, SHORTEST, 20)
    return float(np.median(chunks)), float(np.median(_steps_ms(engine)[-12:]))


def _steps_ms(engine: Engine) -> list[float]:
    taken = []
    while not engine.is_idle:
        began = time.perf_counter()
        engine.step()
        taken.append(1e3 * (time.perf_counter() - began))
    return taken
