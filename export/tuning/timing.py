"""How long a language model takes here for given requests: until the first token, and for each token after it.

In this process and without a server: prompts are read in parts, as a server reads them, then each row gets a token a
step. What is timed repeats until its share of the time is over; figures are medians.

Legend: B requests at once, T tokens of a prompt.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from attendant.config import require_positive
from attendant.errors import InputError
from attendant.manifest import Manifest
from attendant.parameters import MAX_PREFILL_TOKENS
from attendant.tensor_names import LOGITS, PREFILL
from serving.runtime.cached_decoder import CachedDecoder
from serving.runtime.create_runners import create_runners

LEAST_READS, LEAST_STEPS = 3, 8
"""However long each takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """What is asked of a model.

    Attributes:
        prompt_tokens: T of each request.
        answer_tokens: of each.
        batch: B.

    Raises:
        ConfigError: a number is not positive.
    """

    prompt_tokens: int
    answer_tokens: int
    batch: int

    def __post_init__(self) -> None:
        require_positive(self, "prompt_tokens", "answer_tokens", "batch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long one form of a model takes.

    Attributes:
        first_token_s: from a request to its first token, all of the batch read at once.
        step_s: between two tokens of a row, midway in the answer.
        megabytes: of its files.
    """

    first_token_s: float
    step_s: float
    megabytes: float

    def seconds(self, requests: Requests) -> float:
        """From a request to the last token of its answer."""
        return self.first_token_s + (requests.answer_tokens - 1) * self.step_s


def time_requests(folder: Path, requests: Requests, threads: int, seconds: float) -> Timing:
    """Time an artefact of a language model.

    Args:
        folder: the artefact.
        requests: what is asked of it.
        threads: for the work inside one operator.
        seconds: how long to measure, once it is loaded.

    Raises:
        ArtefactError: a file is missing or damaged, or this machine cannot run it.
        InputError: it is no language model, or has no room for such requests.
    """
    manifest = Manifest.read(folder)
    if manifest.task != "generate":
        raise InputError(
            "a language model", f"{manifest.name}, which can {manifest.task}", "tune a model that generates"
        )
    runners = create_runners(folder, manifest, threads)
    decoder = CachedDecoder(runners["decoder"], requests.batch)
    capacity, needed = decoder.capacity or 0, requests.prompt_tokens + requests.answer_tokens
    if needed > capacity:
        expected = f"at most {capacity} tokens of a prompt and its answer"
        raise InputError(expected, str(needed), "lower --prompt-tokens or --answer-tokens")
    reader = CachedDecoder.over(runners[PREFILL], decoder.caches, {}) if PREFILL in runners else decoder
    vocabulary = next(int(spec.axes[-1]) for spec in runners["decoder"].signature.outputs if spec.name == LOGITS)
    ids_BT = np.random.default_rng(0).integers(vocabulary, size=(requests.batch, requests.prompt_tokens))
    midway = requests.prompt_tokens + (requests.answer_tokens - 1) // 2

    def read() -> None:
        begin, left = 0, MAX_PREFILL_TOKENS if reader is decoder else 1  # to the decoder, which scores the last of them
        while (rest := requests.prompt_tokens - begin) > left:
            width = min(MAX_PREFILL_TOKENS, rest - (reader is not decoder))
            score(reader, begin, width)
            begin += width
        score(decoder, begin, rest)

    def score(by: CachedDecoder, begin: int, width: int) -> None:
        start_B = np.full(requests.batch, begin, np.int64)
        by.step(ids_BT[:, begin : begin + width], start_B, np.full((requests.batch, 1), width - 1))

    def step() -> None:
        decoder.step(ids_BT[:, :1], np.full(requests.batch, midway, np.int64))

    sizes = (folder / name for name in manifest.files)
    return Timing(
        first_token_s=_median(read, seconds / 2, LEAST_READS),
        step_s=_median(step, seconds / 2, LEAST_STEPS),
        megabytes=sum(path.stat().st_size for path in sizes) / 1e6,
    )


def _median(work: Callable[[], None], seconds: float, least: int) -> float:
    work()  # what is done once alone
    taken, ends_s = list[float](), time.perf_counter() + seconds
    while len(taken) < least or time.perf_counter() < ends_s:
        began_s = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began_s)
    return median(taken)
