"""What a request is answered when nothing else runs, and whether a rounding of the logits explains another answer.

A served answer may differ where two tokens are as good as equally good: a batch, a chunk or a draft adds the same
numbers in another order. Both runs keep within the parity tolerance of the float64 reference, so their logits differ by
at most twice that,

    drift = 2 × tolerance               of the decoder on ONNX Runtime, as ``attendant verify`` finds it

A different answer is explained if there are logits within the drift of those computed alone that lead to it: the
request is run again, alone, with random numbers within ± drift added to every logit, until one run gives the served
answer. The numbers are only large enough where the two best logits, or a drawn number and the edge of its token's
share, are within the drift.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from attendant.errors import AttendantError
from attendant.sampling_params import SamplingParams
from attendant.tensor_names import LOGITS
from benchmarks.generation.asking import Answer
from benchmarks.generation.engines import loaded, written_of
from export.parity.ladder import climb
from export.parity.parity import rungs_of
from serving.engine.engine import Engine
from serving.engine.request import Request
from serving.engine.settings import EngineSettings
from serving.runtime.base import Array, Buffer, Runner

ALONE = EngineSettings(max_num_seqs=4, max_queue_size=1, prefix_cache_bytes=0)
RUNS = 400
Answers = dict[int, Answer]


@dataclass(frozen=True, slots=True)
class _Shown:
    array: Array

    def numpy(self) -> Array:
        return self.array


class Drifting:
    """A decoder whose logits are off by random numbers."""

    def __init__(self, runner: Runner, drift: float, seed: int) -> None:
        self._runner, self._drift = runner, drift
        self._rng = np.random.default_rng(seed)
        self.signature, self.allocate = runner.signature, runner.allocate

    def run(self, feeds: Mapping[str, Array | Buffer]) -> dict[str, Any]:
        """Run the graph once."""
        outputs: dict[str, Any] = dict(self._runner.run(feeds))
        logits = outputs[LOGITS].numpy()
        noise = self._rng.uniform(-self._drift, self._drift, logits.shape)
        return {**outputs, LOGITS: _Shown(logits + noise.astype(logits.dtype))}


class Alone:
    """One artefact that answers one request at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._model = folder, loaded(folder, ALONE)
        self._known: dict[str, Answers | str] = {}
        self._written = written_of(self._model)

    @cached_property
    def drift(self) -> float:
        """How far two runs' logits may lie apart."""
        rungs = rungs_of(climb(self._folder))
        return 2 * max(one.tolerance for one in rungs if one.graph == "decoder" and "ort" in one.name)

    def answers(self, subject: Any, options: SamplingParams, key: str) -> Answers | str:
        """Each candidate's answer, or the error; equal keys are computed once."""
        if key not in self._known:
            try:
                self._known[key] = answers_of(self._model.engine, self._request(subject, options))
            except AttendantError as error:
                self._known[key] = str(error)
        return self._known[key]

    def explains(self, subject: Any, options: SamplingParams, served: Answers, whole: bool) -> int | None:
        """The number of the run with drifting logits that gave the served answers; None if none did."""
        request = self._request(subject, options)
        for number in range(RUNS):
            decoder = Drifting(self._model.runners["decoder"], self.drift, number)
            engine = Engine(replace(self._written, decoder=decoder), ALONE)
            if agrees(served, answers_of(engine, request), whole):
                return number
        return None

    def gap(self, subject: Any, options: SamplingParams, tokens: list[int]) -> float:
        """How far the two best logits behind these tokens of an answer lie apart."""
        request = self._request(subject, options)
        plain = SamplingParams(max_tokens=1, logprobs=True, top_logprobs=2, ignore_eos=True)
        behind = replace(request, prompt=(*request.prompt, *tokens), max_tokens=1, options=plain)
        first, second = next(piece for piece in self._model.stream(behind) if piece.top_logprobs).top_logprobs[0]
        return first[1] - second[1]

    def _request(self, subject: Any, options: SamplingParams) -> Request:
        return self._model.request(subject, replace(options, deadline_ms=None))


def answers_of(engine: Engine, request: Request) -> Answers:
    """Each candidate's answer to a request that nothing else runs beside.

    Raises:
        AttendantError: it has none.
    """
    answers: Answers = {}
    for piece in engine.stream(request):
        answer = answers.setdefault(piece.candidate, Answer())
        answer.tokens += piece.token_ids
        answer.text += piece.text
        answer.finish_reason = piece.finish_reason
    return answers


def agrees(served: Answers, alone: Answers, whole: bool) -> bool:
    """Whether served answers are those computed alone; of a request that was given up, whether they begin so."""
    if whole:
        return served == alone
    return all(
        candidate in alone
        and alone[candidate].tokens[: len(answer.tokens)] == answer.tokens
        and alone[candidate].text.startswith(answer.text)
        for candidate, answer in served.items()
    )
