"""``GET /v1/models``: what the servers have, and what each model can be asked."""

import time
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse

from attendant.errors import unknown_name
from attendant.sampling_tensors import params_of_inputs
from attendant.tasks import TASKS
from attendant.tensor_names import LOGITS, PIXELS
from clients.images import ANY
from clients.served_model import ServedModel
from serving.gateway.chat_templates import CHAT_TEMPLATE
from serving.gateway.explain.maps import kinds_of
from serving.gateway.gateway import Gateway
from serving.gateway.schemas.base import FAILURES
from serving.gateway.schemas.models import ModelCard, ModelList

router = APIRouter(prefix="/v1", tags=["models"], responses=FAILURES)
_STARTED = int(time.time())


@router.get("/models", response_model=None, responses={200: {"model": ModelList}})
async def list_models(request: Request) -> JSONResponse:
    """Every model of every server."""
    served = await Gateway.of(request).pool.models()
    return JSONResponse({"object": "list", "data": [card(model) for model in served.values()]})


@router.get("/models/{name}", response_model=None, responses={200: {"model": ModelCard}})
async def one_model(request: Request, name: str) -> JSONResponse:
    served = await Gateway.of(request).pool.models()
    if name not in served:
        raise unknown_name("model", name, served, "list them at /v1/models")
    return JSONResponse(card(served[name]))


def card(model: ServedModel) -> dict[str, Any]:
    """What a model can be asked, see :class:`ModelCard`."""
    labels = model.parameters.get("labels")
    example = dict(model.parameters.get("example") or {})
    inputs = {name: value for name, value in example.get("inputs", {}).items() if name != PIXELS}
    return {
        "id": model.name,
        "object": "model",
        "created": _STARTED,
        "owned_by": "attendant",
        "task": model.task,
        "example": {**example, "inputs": inputs} if example else {},
        "options": params_of_inputs(model.inputs),
        "image_size": _image_size(model),
        "labels": len(labels)
        if labels
        else model.outputs[LOGITS][-1]
        if model.task in TASKS and TASKS[model.task].answers == "label"
        else None,
        "explains": kinds_of(model),
        "max_length": model.parameters.get("max_length"),
        "chat": CHAT_TEMPLATE in model.parameters,
    }


def _image_size(model: ServedModel) -> list[int] | None:
    if PIXELS not in model.inputs:
        return None
    sides = list(model.inputs[PIXELS])
    in_bytes = model.dtypes[PIXELS] == "uint8"
    height, width = sides[:2] if in_bytes else sides[-2:]
    own = int(model.parameters.get("image_size", 0))
    return [own if side == ANY else side for side in (height, width)]
