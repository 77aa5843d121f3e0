"""``POST /v1/translate``: a text → another text."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request
from starlette.responses import Response

from clients.translate import Translator
from serving.gateway.events import EVENTS
from serving.gateway.gateway import Gateway
from serving.gateway.generation import written
from serving.gateway.schemas.base import FAILURES
from serving.gateway.schemas.native import NativeAnswers, TranslationRequest

router = APIRouter(prefix="/v1", tags=["text"], responses=FAILURES)


@router.post("/translate", response_model=None, responses={200: {"model": NativeAnswers, "content": EVENTS}})
async def translate(request: Request, asked: TranslationRequest) -> Response:
    """Translate a text."""
    gateway = Gateway.of(request)
    ask = partial(Translator.stream, text=asked.input, options=gateway.bounded(asked.decoding()))
    tally = gateway.tally(request, asked.model, asked.input)
    return await written(request, tally, gateway.pieces(Translator, asked.model, ask), asked.stream)
