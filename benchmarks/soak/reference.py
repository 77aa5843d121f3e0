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

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from attendant.errors import AttendantError
from attendant.sampling_params import SamplingParams
from attendant.tensor_names import LOGITS
from benchmarks.soak.streams import StreamedAnswer
from export.parity.check import check_parity
from export.parity.parity import levels_of
from serving.capacity.profiling.inputs import load_model
from serving.engine.engine import Engine
from serving.engine.loaded_model import LoadedModel
from serving.engine.request import Request
from serving.engine.sampling.guide import Guides
from serving.engine.sampling.token_rules import TokenRules
from serving.engine.settings import EngineSettings
from serving.runtime.base import Array, Buffer, Runner

ONE_AT_A_TIME = EngineSettings(max_num_seqs=4, max_queue_size=1, prefix_cache_bytes=0)
RUNS = 400
Answers = dict[int, StreamedAnswer]
"""By candidate."""


class DriftingRunner:
    """A decoder whose logits are off by random numbers."""

    def __init__(self, runner: Runner, drift: float, seed: int) -> None:
        self._runner, self._drift = runner, drift
        self._rng = np.random.default_rng(seed)
        self.signature, self.allocate = runner.signature, runner.allocate

    def run(self, feeds: Mapping[str, Array | Buffer]) -> dict[str, Any]:
        outputs: dict[str, Any] = dict(self._runner.run(feeds))
        logits = outputs[LOGITS].numpy()
        noise = self._rng.uniform(-self._drift, self._drift, logits.shape)
        drifted = logits + noise.astype(logits.dtype)
        return {**outputs, LOGITS: SimpleNamespace(numpy=drifted.view)}


class ReferenceEngine:
    """One artefact that answers one request at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._model = folder, load_model(folder, ONE_AT_A_TIME)
        self._known: dict[str, Answers | str] = {}

    @cached_property
    def drift(self) -> float:
        """How far two runs' logits may lie apart."""
        levels = levels_of(check_parity(self._folder))
        return 2 * max(one.tolerance for one in levels if one.graph == "decoder" and "ort" in one.name)

    def answers(self, prompt: Any, options: SamplingParams, key: str) -> Answers | str:
        """Each candidate's answer, or the error; equal keys are computed once."""
        if key not in self._known:
            try:
                self._known[key] = collect_answers(self._model.engine, self._request(prompt, options))
            except AttendantError as error:
                self._known[key] = str(error)
        return self._known[key]

    def explains(self, prompt: Any, options: SamplingParams, served: Answers, whole: bool) -> int | None:
        """The number of the run with drifting logits that gave the served answers; None if none did."""
        request, rules = self._request(prompt, options), TokenRules.of(self._model.details)
        parts = LoadedModel(
            decoder=self._model.runners["decoder"],
            encoder=self._model.runners.get("encoder"),
            tokenizer=self._model.tokenizer,
            rules=rules,
            guides=Guides(self._model.tokenizer, self._model.vocabulary_size, rules.end),
        )
        for number in range(RUNS):
            decoder = DriftingRunner(parts.decoder, self.drift, number)
            engine = Engine(replace(parts, decoder=decoder), ONE_AT_A_TIME)
            if agrees(served, collect_answers(engine, request), whole):
                return number
        return None

    def gap(self, prompt: Any, options: SamplingParams, tokens: list[int]) -> float:
        """How far the two best logits behind these tokens of an answer lie apart."""
        request = self._request(prompt, options)
        plain = SamplingParams(max_tokens=1, logprobs=True, top_logprobs=2, ignore_eos=True)
        after = replace(request, prompt=(*request.prompt, *tokens), max_tokens=1, options=plain)
        first, second = next(one for one in self._model.stream(after) if one.top_logprobs).top_logprobs[0]
        return first[1] - second[1]

    def _request(self, prompt: Any, options: SamplingParams) -> Request:
        return self._model.request(prompt, replace(options, deadline_ms=None))


def collect_answers(engine: Engine, request: Request) -> Answers:
    """Each candidate's answer to a request that nothing else runs beside."""
    answers: Answers = {}
    for output in engine.stream(request):
        answer = answers.setdefault(output.candidate, StreamedAnswer())
        answer.tokens += output.token_ids
        answer.text += output.text
        answer.finish_reason = output.finish_reason
    return answers


def agrees(served: Answers, alone: Answers, whole: bool) -> bool:
    """Whether served answers are those computed alone; of a request that was cancelled, whether they begin so."""
    if whole:
        return served == alone
    return all(
        candidate in alone
        and alone[candidate].tokens[: len(answer.tokens)] == answer.tokens
        and alone[candidate].text.startswith(answer.text)
        for candidate, answer in served.items()
    )
