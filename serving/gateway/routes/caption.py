"""``POST /v1/caption``: an image → what it shows."""

from collections.abc import AsyncIterator

from fastapi import APIRouter, Request
from starlette.responses import Response

from clients.answer import Delta
from clients.caption import Captioner
from clients.triton_client import Array
from serving.gateway.events import EVENTS
from serving.gateway.gateway import Gateway, SentImage
from serving.gateway.generation import create_response
from serving.gateway.schemas.base import FAILURES
from serving.gateway.schemas.native import CaptionRequest, NativeAnswers
from serving.gateway.uploads import read_upload, upload_schema

router = APIRouter(prefix="/v1", tags=["images"], responses=FAILURES)


@router.post(
    "/caption",
    response_model=None,
    responses={200: {"model": NativeAnswers, "content": EVENTS}},
    openapi_extra=upload_schema(CaptionRequest),
)
async def caption(request: Request) -> Response:
    """Describe an image."""
    body, image = await read_upload(request, CaptionRequest)
    gateway = Gateway.of(request)
    options = gateway.limit_time(body.sampling_params())

    usage = gateway.usage(request, body.model, "an image")
    if not body.stream:
        await gateway.require_bounded(body.model, [], options)
    await gateway.reserve_tokens(request, body.model, [], options)
    sent = SentImage.of(request, image)

    def ask(model: Captioner, pixels: Array) -> AsyncIterator[Delta]:
        return model.stream(pixels, sent.within_its_time(options))

    deltas = gateway.stream_of_image(Captioner, body.model, sent, ask)
    return await create_response(request, usage, deltas, body.stream)
