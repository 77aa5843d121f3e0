"""One small request to a model and a judgement of the answer, one rule a task.

An example that travels with the model states the right answer; without one, the answer must be well formed.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from attendant.engine_health import EngineHealth
from attendant.errors import ServerError
from attendant.sampling_params import SamplingParams
from attendant.sampling_tensors import prompt_tensors
from attendant.tasks import TASKS, resolve
from attendant.tensor_names import HEALTH, INPUT_IDS, PIXELS, POOLED, TEXT_OUTPUT
from clients.answer import Delta
from clients.caption import Captioner
from clients.classify import Classifier
from clients.embed import Embedder
from clients.images import blank_pixels
from clients.predict import Predictor
from clients.served_model import ServedModel
from clients.statuses import reading
from clients.text import TextModel
from clients.triton_client import Array, TritonClient

STALLED_S = 60.0
"""A step that takes longer is taken for a fault, wherever nothing else is known of the process."""
HARMLESS_TEXT = "a"
HARMLESS_PROMPT = (0,)
HARMLESS_TOKENS = 2
MOST_DELTAS = 1 << 13
"""Of an answer to an example: more than any of ours has."""
CLOSE = 1e-3  # of the largest float beyond 1: two machines agree on a float32 model to about 1e-5
SHOWN_VALUES = 8
Rule = Callable[[TritonClient, ServedModel, Mapping[str, Any], Any], Awaitable["CanaryResult"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryResult:
    """What a model answered, in words, and whether that is right.

    Attributes:
        found: the answer, or what its engine does instead.
        right: whether that is well.
        answered: whether it is an answer to the example; else it is what the engine does.
        stalled_s: how long the present step of its engine has taken so far, in seconds.
    """

    found: str
    right: bool
    answered: bool = True
    stalled_s: float = 0.0


async def check_answer(client: TritonClient, model: ServedModel, though_busy: bool = False) -> CanaryResult:
    """Send a model its example, or something harmless, and judge the answer.

    Args:
        client: of its server.
        model: that answers.
        though_busy: wait for the answer of an engine that is at work; else to be at work is answer enough.

    Raises:
        InputError, ServerError: the model refused it or failed.
    """
    example = model.parameters.get("example") or {}
    if model.task not in TASKS:
        return CanaryResult(found="loaded; no canary for a model of another project", right=True, answered=False)
    check: Rule = resolve(TASKS[model.task].canary)
    with reading(model.name):
        if model.says_health and not though_busy and (verdict := await _check_engine(client, model)) is not None:
            return verdict
        return await check(client, model, example.get("inputs") or {}, example.get("answer"))


async def check_classifier(
    client: TritonClient, model: ServedModel, inputs: Mapping[str, Any], answer: Any
) -> CanaryResult:
    """Of an image without content, any label is right."""
    shape = model.inputs[PIXELS]
    pixels = np.asarray(inputs[PIXELS], model.dtypes[PIXELS]) if PIXELS in inputs else blank_pixels(model)
    classifier = Classifier(client, model)
    logits_K = (await classifier.logits(pixels.reshape(1, *shape)))[0]
    label = classifier.guesses(logits_K)[0].label
    return CanaryResult(found=label, right=_finite(logits_K) and answer in (None, label))


async def engine_health(client: TritonClient, model: ServedModel) -> EngineHealth:
    """How the engine of a model that ``says_health`` is doing; it says so at once, however many requests wait.

    Raises:
        ServerError: its worker is dead, or says nothing.
    """
    inputs = {PIXELS: blank_pixels(model)[None]} if PIXELS in model.inputs else prompt_tensors(HARMLESS_TEXT)
    answers = [outputs async for outputs in client.stream(model.name, inputs, {HEALTH: ""})]
    if not answers:
        raise ServerError(f"the health of {model.name!r}", "an end without it", "look at the server's log")
    with reading(model.name):
        return msgspec.json.decode(answers[0][TEXT_OUTPUT].reshape(-1)[0], type=EngineHealth)


async def _check_engine(client: TritonClient, model: ServedModel) -> CanaryResult | None:
    """The verdict on an engine that is at work, which need not answer an example as well; None of one that is idle."""
    health = await engine_health(client, model)
    if health.loading:
        return CanaryResult(found="its engine is being started anew", right=False, answered=False)
    if not health.alive or health.stalled_s > STALLED_S:
        found = f"a step of {health.stalled_s:.0f} s" if health.alive else "no thread that decodes"
        return CanaryResult(found=found, right=False, answered=False, stalled_s=health.stalled_s)
    found = f"at work: {health.running} requests run, {health.waiting} wait"
    return CanaryResult(found=found, right=True, answered=False, stalled_s=health.stalled_s) if health.busy else None


async def check_text(client: TritonClient, model: ServedModel, inputs: Mapping[str, Any], answer: Any) -> CanaryResult:
    """Few tokens, and an end that says why."""
    harmless = HARMLESS_PROMPT if model.token_ids_only else HARMLESS_TEXT
    prompt = inputs.get(INPUT_IDS, inputs.get("text"))
    limit = HARMLESS_TOKENS if prompt is None else inputs.get("max_tokens")
    prompt = harmless if prompt is None else prompt
    return await _check_stream(TextModel(client, model).stream(prompt, SamplingParams(max_tokens=limit)), limit, answer)


async def _check_stream(stream: AsyncIterator[Delta], limit: int | None, answer: Any) -> CanaryResult:
    deltas: list[Delta] = []
    async for delta in stream:
        deltas.append(delta)
        if len(deltas) > MOST_DELTAS:
            return CanaryResult(found=f"no end after {MOST_DELTAS} deltas", right=False)
    if not deltas:
        return CanaryResult(found="an end without an answer", right=False)
    text, tokens = "".join(delta.text for delta in deltas), [token for delta in deltas for token in delta.token_ids]
    found: str | list[int] = tokens if isinstance(answer, list) else text
    whole = deltas[-1].finish_reason in ("stop", "length") and (limit is None or len(tokens) <= limit)
    return CanaryResult(found=str(found) if found else "", right=whole and answer in (None, found))


async def check_captioner(
    client: TritonClient, model: ServedModel, inputs: Mapping[str, Any], answer: Any
) -> CanaryResult:
    """The same of an image."""
    pixels = np.asarray(inputs[PIXELS], model.dtypes[PIXELS]) if PIXELS in inputs else blank_pixels(model)
    limit = inputs.get("max_tokens", None if answer else HARMLESS_TOKENS)
    return await _check_stream(Captioner(client, model).stream(pixels, SamplingParams(max_tokens=limit)), limit, answer)


async def check_embedder(
    client: TritonClient, model: ServedModel, inputs: Mapping[str, Any], answer: Any
) -> CanaryResult:
    """One vector of the promised length."""
    vector_E = (await Embedder(client, model).embed([inputs.get("text", HARMLESS_TEXT)], "pooled"))[0]
    well_formed = vector_E.shape == model.outputs[POOLED] and _finite(vector_E)
    right = well_formed and (answer is None or _close(vector_E, np.asarray(answer), _within(model)))
    return CanaryResult(found=_vector_text(vector_E), right=right)


async def check_predictor(
    client: TritonClient, model: ServedModel, inputs: Mapping[str, Any], answer: Any
) -> CanaryResult:
    """Ones for every input without an example; every output is finite."""
    rows = {
        name: np.asarray(inputs.get(name, np.ones([abs(size) for size in shape])), dtype=model.dtypes[name])[None]
        for name, shape in model.inputs.items()
    }
    outputs = await Predictor(client, model).predict(rows)
    found = "; ".join(f"{name} {_vector_text(array[0].reshape(-1))}" for name, array in outputs.items())
    within = _within(model)
    right = all(
        _close(outputs[name][0].reshape(-1), np.ravel(values), within)
        for name, values in (answer or {}).items()
        if not within or outputs[name].dtype.kind == "f"  # a number of a class may rightly be another
    )
    return CanaryResult(found=found, right=right and all(_finite(array) for array in outputs.values()))


def _vector_text(vector_E: Array) -> str:
    first = ", ".join(f"{value:.4f}" for value in vector_E[:SHOWN_VALUES])
    return f"[{first}, …] of {len(vector_E)}"


def _within(model: ServedModel) -> float:
    return float((model.parameters.get("example") or {}).get("within", 0.0))


def _close(vector_E: Array, answer_E: Array, within: float) -> bool:
    if len(answer_E) > len(vector_E):
        return False
    off_E = vector_E[: len(answer_E)] - answer_E
    if within and np.linalg.norm(off_E) <= within * np.linalg.norm(answer_E):
        return True
    largest = np.abs(answer_E).max(initial=1.0) if vector_E.dtype.kind == "f" else 1.0
    return bool(np.all(np.abs(off_E) <= CLOSE * largest))


def _finite(array: Array) -> bool:
    return bool(np.isfinite(array).all())
