"""``POST /tokenize`` and ``POST /detokenize``: a model's tokenizer, as vLLM has them; no graph is run."""

from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from attendant.errors import InputError
from attendant.no_tokenizer import no_text
from attendant.sampling_params import SamplingParams
from clients.answer import Delta, only_answer
from clients.embed import TASK as EMBED
from clients.embed import Embedder
from clients.generate import Generator
from clients.served_model import ServedModel
from clients.translate import Translator
from serving.gateway.answers import read_all
from serving.gateway.bodies import JsonRoute
from serving.gateway.gateway import Gateway, while_connected
from serving.gateway.large_answers import json_response
from serving.gateway.schemas.base import FAILURES
from serving.gateway.schemas.tokens import DetokenizeRequest, Text, TokenizeRequest, Tokens
from serving.gateway.tools import plain_tools
from serving.gateway.upstream.server import Upstream

ECHO = SamplingParams(echo=True, max_tokens=0)
router = APIRouter(tags=["text"], responses=FAILURES, route_class=JsonRoute)


@router.post("/tokenize", response_model=None, responses={200: {"model": Tokens}})
async def tokenize(request: Request, body: TokenizeRequest) -> Response:
    """The tokens of a text, or of a chat."""
    gateway = Gateway.of(request)
    served = await gateway.pool.model(body.model)
    if served.task != Generator.task:
        _require_plain(served, body)
    if served.task == EMBED:
        asked = gateway.pool.once(body.model, partial(_tokenize, body=body))
        served, tokens = await while_connected(request, asked)
        counted = {"count": len(tokens), "max_model_len": served.parameters.get("max_length"), "tokens": tokens}
        return await json_response(lambda: counted, len(tokens))

    params = replace(ECHO, parse_special=body.parse_special)

    async def prepare(model: ServedModel) -> tuple[str, bool]:
        nonlocal served
        served = model  # of several servers the one that answers
        if body.messages is None:
            return body.prompt or "", not body.add_special_tokens
        told = plain_tools([tool.model_dump() for tool in body.tools or ()])
        return await gateway.templates.render(model, [message.plain() for message in body.messages], told), True

    def ask(model: Generator, prepared: tuple[str, bool]) -> AsyncIterator[Delta]:
        prompt, is_rendered = prepared
        return model.chat(prompt, ECHO) if is_rendered else model.stream(prompt, params)

    def ask_translator(model: Translator) -> AsyncIterator[Delta]:
        nonlocal served
        served = model.model
        return model.stream(body.prompt or "", params)

    if served.task == Translator.task:
        deltas = gateway.stream(Translator, body.model, ask_translator)
    else:
        deltas = gateway.stream_prepared(Generator, body.model, prepare, ask)
    answer = only_answer(await while_connected(request, read_all(deltas)))

    def found() -> dict[str, Any]:
        value: dict[str, Any] = {
            "count": len(answer.token_ids),
            "max_model_len": served.parameters.get("max_length", served.parameters.get("max_source_length")),
            "tokens": list(answer.token_ids),
        }
        if body.return_token_strs:
            value["token_strs"] = [piece.decode(errors="replace") for piece in answer.token_bytes]
        return value

    return await json_response(found, 2 * len(answer.token_ids))


@router.post("/detokenize", response_model=None, responses={200: {"model": Text}})
async def detokenize(request: Request, body: DetokenizeRequest) -> dict[str, Any]:
    """The text of tokens, without special ones."""
    if await Gateway.of(request).has_token_ids_only(body.model):
        raise no_text("tokens that are to become a text")
    task = (await Gateway.of(request).pool.model(body.model)).task
    if task == EMBED:
        remedy = "ask a model that answers with text"
        raise InputError(
            "a model whose server makes texts of tokens", f"{body.model!r}, which embeds", remedy, param="model"
        )
    kind = Translator if task == Translator.task else Generator
    deltas = Gateway.of(request).stream(kind, body.model, lambda model: model.stream(body.tokens, ECHO))
    return {"prompt": only_answer(await while_connected(request, read_all(deltas))).text}


async def _tokenize(upstream: Upstream, served: ServedModel, body: TokenizeRequest) -> tuple[ServedModel, list[int]]:
    return served, await Embedder(upstream.client, served).tokenize(body.prompt or "", body.parse_special)


def _require_plain(served: ServedModel, body: TokenizeRequest) -> None:
    refused = {
        "messages": body.messages is not None,
        "add_special_tokens": not body.add_special_tokens,
        "return_token_strs": body.return_token_strs and served.task == EMBED,
    }
    if param := next((name for name, is_asked in refused.items() if is_asked), ""):
        raise InputError(
            f"{param} for a language model", f"{served.name!r}, which can {served.task}", "leave it out", param=param
        )
