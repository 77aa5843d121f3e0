"""``POST /v1/explain``: an image or a text → what a model attends to while it answers, as arrays or as a picture."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from attendant.errors import InputError
from attendant.sampling_params import SamplingParams
from attendant.tensor_names import LOGITS
from clients.answer import Answer, Delta, only_answer
from clients.caption import Captioner
from clients.classify import Classifier, Guess
from clients.explain import longest_explained
from clients.generate import Generator
from clients.occlusion import occlusion_maps
from clients.served_model import ServedModel
from clients.statuses import reading
from clients.translate import Translator
from clients.triton_client import Array
from serving.gateway.answers import TokenUsage, count_tokens, read_all
from serving.gateway.explain.drawing import draw_alignment, draw_overlays
from serving.gateway.explain.maps import (
    SELECTED_BY,
    Kind,
    Map,
    classifier_maps,
    kinds_of,
    require_grids,
    round_values,
    select_maps,
    token_maps,
)
from serving.gateway.gateway import Gateway, SentImage, while_connected
from serving.gateway.schemas.base import FAILURES
from serving.gateway.schemas.explanations import MOST_LABELS, ExplanationRequest, ExplanationResponse
from serving.gateway.uploads import read_upload, upload_schema
from serving.gateway.upstream.server import Upstream

PNG = "image/png"
router = APIRouter(prefix="/v1", tags=["explanations"], responses=FAILURES)
_PICTURE = {PNG: {"schema": {"type": "string", "format": "binary"}}}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplanationTask:
    """What one request asks.

    Attributes:
        body: its fields.
        image: of it, whose bytes are empty if there is none.
        kind: of the explanation.
        usage: of its tokens.
    """

    body: ExplanationRequest
    image: SentImage
    kind: Kind
    usage: TokenUsage

    def require_image(self) -> None:
        """Refuse a question without an image, or with a text.

        Raises:
            InputError: it is one.
        """
        if not self.image.data or self.body.input is not None:
            found = "an input" if self.image.data else "no image"
            remedy = "send it as the file or field image"
            raise InputError(f"an image for {self.body.model!r}, and no input", found, remedy)


@router.post(
    "/explain",
    response_model=None,
    responses={200: {"model": ExplanationResponse, "content": _PICTURE}},
    openapi_extra=upload_schema(ExplanationRequest),
)
async def explain(request: Request) -> Response:
    """Show what a model attends to."""
    body, image = await read_upload(request, ExplanationRequest)
    gateway = Gateway.of(request)
    served = await gateway.pool.model(body.model)
    kinds = kinds_of(served)
    if not kinds:
        raise InputError("a model that shows what it attends to", repr(served.name), "see explains in /v1/models")
    kind = body.kind or kinds[0]
    if kind not in kinds:
        raise InputError(f"a kind that {served.name!r} has, one of {kinds}", repr(kind), "correct kind")
    for name in ("layer", "head", "label"):
        if getattr(body, name) is not None and name not in SELECTED_BY[kind]:
            raise InputError(f"no {name} for {kind}", repr(getattr(body, name)), f"leave {name} out")
    usage = gateway.usage(request, body.model, body.input or "an image")
    if served.task != "classify":
        await gateway.reserve_tokens(request, body.model, [body.input or ""], _options(gateway, body, served))
    task = ExplanationTask(body=body, image=SentImage.of(request, image), kind=kind, usage=usage)
    work = _TASKS[served.task](gateway, task)
    return await while_connected(request, work)


async def _explain_classifier(gateway: Gateway, task: ExplanationTask) -> Response:
    body, kind = task.body, task.kind
    task.require_image()

    async def ask(upstream: Upstream, served: ServedModel) -> tuple[Array, list[Guess], list[Map]]:
        now, pixels = await gateway.prepare_image(task.image, upstream, served)
        model = Classifier(upstream.client, now)
        if kind == "occlusion":
            guesses, maps = await _occlude(model, pixels, body.label)
        else:
            outputs = await model.explain(pixels[None])
            with reading(served.name, upstream.address):
                arrays = {name: array[0] for name, array in outputs.items()}
                maps = select_maps(classifier_maps(kind, arrays), body.layer, body.head)
                guesses = model.guesses(arrays[LOGITS], MOST_LABELS)
        with reading(served.name, upstream.address):
            require_grids(maps)
        return pixels, guesses, maps

    async with gateway.explained.of(body.model, task.image.owner):
        pixels, guesses, maps = await gateway.pool.once(body.model, ask)
    if body.format == "png":
        shown = maps[:1] if kind == "occlusion" else maps
        return await _picture(draw_overlays, pixels, shown, max(one.head or 0 for one in shown))
    return _respond(task, guesses[0].label, maps=maps, labels=[asdict(guess) for guess in guesses])


async def _occlude(model: Classifier, pixels: Array, label: str | None) -> tuple[list[Guess], list[Map]]:
    logits_K, maps_Khw = await occlusion_maps(model, pixels)
    names, guesses = model.labels(len(logits_K)), model.guesses(logits_K, MOST_LABELS)
    if label is not None and label not in names:
        raise InputError(f"a label, one of {names[:20]}", repr(label), "correct label")
    best = np.argsort(-logits_K, kind="stable")  # two classes may have one name: of a label, the more probable is meant
    shown = best[:MOST_LABELS] if label is None else [one for one in best if names[one] == label][:1]
    return guesses, [Map(title=names[one], values=maps_Khw[one]) for one in shown]


async def _explain_translator(gateway: Gateway, task: ExplanationTask) -> Response:
    body, text = task.body, task.body.input
    if text is None:
        raise InputError("the text to translate as input", "none", "send it", param="input")
    deltas = gateway.stream(
        Translator, body.model, lambda model: model.stream(text, _options(gateway, body, model.model))
    )
    answer, weights_TS = await _whole(deltas, task.usage, text)
    return await _respond_with_alignment(task, answer, weights_TS, answer.source_texts, "source tokens")


async def _explain_language_model(gateway: Gateway, task: ExplanationTask) -> Response:
    body, text = task.body, task.body.input
    if text is None:
        raise InputError("the text to continue as input", "none", "send it", param="input")
    deltas = gateway.stream(
        Generator, body.model, lambda model: model.stream(text, _options(gateway, body, model.model))
    )
    answer, weights_TS = await _whole(deltas, task.usage, text, grows=True)
    read = (*answer.source_texts, *answer.token_texts[:-1])
    return await _respond_with_alignment(task, answer, weights_TS, read, "tokens before")


async def _respond_with_alignment(
    task: ExplanationTask, answer: Answer, weights_TS: Array, read: Sequence[str], name: str
) -> Response:
    with reading(task.body.model):
        if len(weights_TS) and weights_TS.shape[1] != len(read):
            raise ValueError(f"{len(read)} texts of what is read, and weights of shape {weights_TS.shape}")
    if task.body.format == "png":
        return await _picture(draw_alignment, read, answer.token_texts, weights_TS, name)
    return _respond(
        task,
        answer.text,
        tokens=list(answer.token_texts),
        source=list(answer.source_texts),
        alignment=round_values(weights_TS),
    )


async def _explain_captioner(gateway: Gateway, task: ExplanationTask) -> Response:
    body = task.body
    task.require_image()
    seen: list[Array] = []

    def ask(model: Captioner, pixels: Array) -> AsyncIterator[Delta]:
        seen.append(pixels)
        return model.stream(pixels, task.image.within_its_time(_options(gateway, body, model.model)))

    answer, weights_TS = await _whole(gateway.stream_of_image(Captioner, body.model, task.image, ask), task.usage)
    with reading(body.model):
        maps = token_maps(answer.token_texts, weights_TS)
        require_grids(maps)
    if body.format == "png":
        return await _picture(draw_overlays, seen[-1], maps)
    return _respond(task, answer.text, tokens=list(answer.token_texts), maps=maps)


_TASKS: dict[str, Callable[[Gateway, ExplanationTask], Awaitable[Response]]] = {
    "classify": _explain_classifier,
    "translate": _explain_translator,
    "caption": _explain_captioner,
    "generate": _explain_language_model,
}


def _options(gateway: Gateway, body: ExplanationRequest, served: ServedModel) -> SamplingParams:
    max_tokens = body.max_tokens
    if max_tokens is None and served.task == Generator.task:
        max_tokens = longest_explained(served)
    return gateway.limit_time(SamplingParams(explain=True, token_counts=True, max_tokens=max_tokens))


async def _whole(
    deltas: AsyncGenerator[Delta, None], usage: TokenUsage, prompt: str = "", grows: bool = False
) -> tuple[Answer, Array]:
    # The answer and its weights, a row for each of its tokens; of a language model, each is longer than the one before.
    read = await read_all(count_tokens(deltas, usage, prompt))
    with reading(usage.model):
        widths = {delta.alignment.shape[1] for delta in read if delta.alignment is not None}
        if len(widths) > 1 and not grows:
            raise ValueError(f"weights of as many positions for each token; found {sorted(widths)[:10]}")
        answer = only_answer(read)
        weights_TS: Array = np.zeros((0, 0)) if answer.alignment is None else answer.alignment
        if len(weights_TS) != len(answer.token_texts) or not np.isfinite(weights_TS).all():
            raise ValueError(f"{len(answer.token_texts)} texts of tokens, and weights of shape {weights_TS.shape}")
        return answer, weights_TS


async def _picture(draw: Callable[..., bytes], *what: object) -> Response:
    # In another thread: other requests need not wait for a picture.
    return Response(await asyncio.to_thread(draw, *what), media_type=PNG)


def _respond(task: ExplanationTask, answer: str, maps: list[Map] | None = None, **parts: object) -> Response:
    value = {"model": task.body.model, "kind": task.kind, "answer": answer, **parts}
    if maps is not None:
        value["maps"] = [{**asdict(one), "values": round_values(one.values)} for one in maps]
    return JSONResponse(value)
