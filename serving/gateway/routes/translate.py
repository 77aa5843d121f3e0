"""``POST /v1/translate``: a text → another text."""

from functools import partial

from fastapi import APIRouter, Request
from starlette.responses import Response

from clients.translate import Translator
from serving.gateway.bodies import JsonRoute
from serving.gateway.events import EVENTS
from serving.gateway.gateway import Gateway
from serving.gateway.generation import create_response
from serving.gateway.schemas.base import FAILURES
from serving.gateway.schemas.native import NativeAnswers, TranslationRequest

router = APIRouter(prefix="/v1", tags=["text"], responses=FAILURES, route_class=JsonRoute)


@router.post("/translate", response_model=None, responses={200: {"model": NativeAnswers, "content": EVENTS}})
async def translate(request: Request, body: TranslationRequest) -> Response:
    """Translate a text."""
    gateway = Gateway.of(request)
    options = gateway.limit_time(body.sampling_params())
    ask = partial(Translator.stream, text=body.input, options=options)
    usage = gateway.usage(request, body.model, body.input)
    if not body.stream:
        await gateway.require_bounded(body.model, [], options)
    await gateway.reserve_tokens(request, body.model, [body.input], options)
    deltas = gateway.stream(Translator, body.model, ask)
    return await create_response(request, usage, deltas, body.stream, body.input)
