"""``POST /v1/classify``: an image → labels."""

from dataclasses import asdict

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse

from clients.classify import TASK, Classifier, Guess
from clients.served_model import ServedModel
from serving.gateway.gateway import Gateway, SentImage, while_connected
from serving.gateway.middleware.access import owner_of
from serving.gateway.schemas.base import FAILURES
from serving.gateway.schemas.native import Classification, ClassificationRequest
from serving.gateway.uploads import read_upload, upload_schema
from serving.gateway.upstream.server import Upstream
from serving.gateway.upstream.unknown_models import require_task

router = APIRouter(prefix="/v1", tags=["images"], responses=FAILURES)


@router.post(
    "/classify",
    response_model=None,
    responses={200: {"model": Classification}},
    openapi_extra=upload_schema(ClassificationRequest),
)
async def classify(request: Request) -> JSONResponse:
    """The most probable labels of an image."""
    body, image = await read_upload(request, ClassificationRequest)
    gateway = Gateway.of(request)
    gateway.usage(request, body.model, "an image")

    async def guesses(upstream: Upstream, served: ServedModel) -> list[Guess]:
        now, pixels = await gateway.prepare_image(SentImage.of(request, image), upstream, require_task(served, TASK))
        model = Classifier(upstream.client, require_task(now, TASK))
        return model.guesses((await model.logits(pixels[None]))[0], body.top_k)

    async def classify_in_turn() -> list[Guess]:
        async with gateway.classified.of(body.model, owner_of(request.scope)):
            return await gateway.pool.once(body.model, guesses)

    found = await while_connected(request, classify_in_turn())
    return JSONResponse({"model": body.model, "labels": [asdict(guess) for guess in found]})
