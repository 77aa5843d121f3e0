"""``POST /v1/caption``: an image → what it shows."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from fastapi import APIRouter, Request
from starlette.responses import Response

from clients.answer import Delta
from clients.caption import Captioner
from serving.gateway.events import EVENTS
from serving.gateway.gateway import Gateway
from serving.gateway.generation import written
from serving.gateway.images import pixels_of
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
    asked, image = await read_upload(request, CaptionRequest)
    gateway = Gateway.of(request)
    options = gateway.bounded(asked.decoding())

    async def pieces(model: Captioner) -> AsyncGenerator[Delta, None]:
        pixels = await pixels_of(image, model.model, gateway.settings)
        async for piece in model.stream(pixels, options):
            yield piece

    tally = gateway.tally(request, asked.model, "an image")
    return await written(request, tally, gateway.pieces(Captioner, asked.model, pieces), asked.stream)
