"""``POST /tokenize`` and ``POST /detokenize``: a language model's tokenizer, as vLLM has them; no graph is run."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request

from attendant.no_tokenizer import no_text
from attendant.sampling_params import SamplingParams
from clients.answer import Answer, Delta, only_answer
from clients.generate import Generator
from serving.gateway.answers import read_all
from serving.gateway.bodies import JsonRoute
from serving.gateway.gateway import Gateway, while_connected
from serving.gateway.schemas.base import FAILURES
from serving.gateway.schemas.tokens import DetokenizeRequest, Text, TokenizeRequest, Tokens
from serving.gateway.tools import plain_tools

ECHO = SamplingParams(echo=True, max_tokens=0)
router = APIRouter(tags=["text"], responses=FAILURES, route_class=JsonRoute)


@router.post("/tokenize", response_model=None, responses={200: {"model": Tokens}})
async def tokenize(request: Request, body: TokenizeRequest) -> dict[str, Any]:
    """The tokens of a text, or of a chat."""
    gateway = Gateway.of(request)

    async def ask(model: Generator) -> AsyncIterator[Delta]:
        prompt, rendered = body.prompt or "", not body.add_special_tokens
        if body.messages is not None:
            told = plain_tools([tool.model_dump() for tool in body.tools or ()])
            messages = [message.plain() for message in body.messages]
            prompt, rendered = await gateway.templates.render(model.model, messages, told), True
        params = replace(ECHO, parse_special=body.parse_special)
        async for delta in model.chat(prompt, ECHO) if rendered else model.stream(prompt, params):
            yield delta

    answer = await _echo(request, body.model, ask)
    served = (await gateway.pool.models())[body.model]
    found: dict[str, Any] = {
        "count": len(answer.token_ids),
        "max_model_len": served.parameters.get("max_length"),
        "tokens": list(answer.token_ids),
    }
    if body.return_token_strs:
        found["token_strs"] = [piece.decode(errors="replace") for piece in answer.token_bytes]
    return found


@router.post("/detokenize", response_model=None, responses={200: {"model": Text}})
async def detokenize(request: Request, body: DetokenizeRequest) -> dict[str, Any]:
    """The text of tokens, without special ones."""
    if await Gateway.of(request).has_token_ids_only(body.model):
        raise no_text("tokens that are to become a text")
    answer = await _echo(request, body.model, lambda model: model.stream(body.tokens, ECHO))
    return {"prompt": answer.text}


async def _echo(request: Request, name: str, ask: Callable[[Generator], AsyncIterator[Delta]]) -> Answer:
    deltas = Gateway.of(request).stream(Generator, name, ask)
    return only_answer(await while_connected(request, read_all(deltas)))
