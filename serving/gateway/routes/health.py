"""Whether the gateway lives, and whether every model behind it answers its canary."""

from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.responses import JSONResponse

from serving.gateway.gateway import Gateway
from serving.gateway.upstream.pool import Pool

router = APIRouter(tags=["operation"])


class Alive(BaseModel):
    """The gateway lives."""

    alive: bool


class Ready(BaseModel):
    """What each server's models answered their canaries.

    Attributes:
        ready: whether every model answers rightly somewhere, of a server that is just back those that it had, too.
        upstreams: address → model → ``ok``, or what was found instead; only with a key, where keys are needed.
    """

    ready: bool
    upstreams: dict[str, dict[str, str]] | None = None


@router.get("/livez", response_model=None, responses={200: {"model": Alive}})
async def alive(request: Request) -> JSONResponse:
    """Whether the gateway itself lives."""
    return JSONResponse({"alive": True})


@router.get("/readyz", response_model=None, responses={200: {"model": Ready}, 503: {"model": Ready}})
async def ready(request: Request) -> JSONResponse:
    """Whether every model answers its canary on some server; found out every few seconds."""
    gateway = Gateway.of(request)
    found = readiness(gateway.pool)
    if gateway.settings.keys is not None and request.state.key is None:
        del found["upstreams"]
    return JSONResponse(found, 200 if found["ready"] else 503)


def readiness(pool: Pool) -> dict[str, Any]:
    """See :class:`Ready`."""
    names = {name for upstream in pool.upstreams for name in (*upstream.models, *upstream.verdicts, *upstream.awaited)}
    answers = {
        upstream.address: {
            name: "ok" if verdict.right else verdict.found for name, verdict in sorted(upstream.verdicts.items())
        }
        for upstream in pool.upstreams
    }
    return {"ready": bool(names) and names == pool.well(), "upstreams": answers}
