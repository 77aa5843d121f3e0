"""``GET /v1/models``: what the servers have, and what each model can be asked."""

import logging
import time
from collections.abc import Collection
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from attendant.errors import ServerError
from attendant.sampling_tensors import params_of_inputs
from attendant.tasks import TASKS
from attendant.tensor_names import LOGITS, PIXELS
from clients.images import ANY
from clients.predict import TASK as PREDICT
from clients.served_model import ServedModel
from clients.statuses import reading
from serving.gateway.chat_templates import CHAT_TEMPLATE
from serving.gateway.explain.maps import kinds_of
from serving.gateway.gateway import Gateway
from serving.gateway.schemas.base import FAILURES
from serving.gateway.schemas.models import ModelCard, ModelList

router = APIRouter(prefix="/v1", tags=["models"], responses=FAILURES)
_LOG = logging.getLogger("attendant.upstream")
_STARTED = int(time.time())


@router.get("/models", response_model=None, responses={200: {"model": ModelList}})
async def list_models(request: Request) -> Response:
    """Every model of every server."""
    pool = Gateway.of(request).pool
    served, well, cards = await pool.models(), pool.well(), []
    for model in served.values():
        try:
            cards.append(_render(model, well))
        except ServerError as error:  # of this model alone
            _LOG.warning("the model %r is left out: %s", model.name, error)
    return Response(b'{"object":"list","data":[%b]}' % b",".join(cards), media_type="application/json")


@router.get("/models/{name}", response_model=None, responses={200: {"model": ModelCard}})
async def one_model(request: Request, name: str) -> Response:
    pool = Gateway.of(request).pool
    return Response(_render(await pool.model(name), pool.well()), media_type="application/json")


def card(model: ServedModel) -> dict[str, Any]:
    """What a model can be asked, see :class:`ModelCard`; without ``ready``."""
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
        "token_ids_only": model.token_ids_only,
        **_tensors(model, labels),
    }


def _tensors(model: ServedModel, labels: Any) -> dict[str, Any]:
    if model.task != PREDICT:
        return dict.fromkeys(("inputs", "outputs", "label_names"))
    return {
        "inputs": [
            {"name": name, "dtype": model.dtypes[name], "shape": _sizes(shape)} for name, shape in model.inputs.items()
        ],
        "outputs": {name: _sizes(shape) for name, shape in model.outputs.items()},
        "label_names": labels if labels and all(isinstance(label, str) for label in labels) else None,
    }


def _sizes(shape: tuple[int, ...]) -> list[int | None]:
    return [None if size == ANY else size for size in shape]


def _render(model: ServedModel, well: Collection[str]) -> bytes:
    with reading(model.name):
        return bytes(JSONResponse({**card(model), "ready": model.name in well}).body)


def _image_size(model: ServedModel) -> list[int] | None:
    if PIXELS not in model.inputs:
        return None
    sides = list(model.inputs[PIXELS])
    in_bytes = model.dtypes[PIXELS] == "uint8"
    height, width = sides[:2] if in_bytes else sides[-2:]
    own = int(model.parameters.get("image_size", 0))
    return [own if side == ANY else side for side in (height, width)]
