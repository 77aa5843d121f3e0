"""The application: routes, the failures that they answer with, and what lives as long as it runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from serving.gateway import caption, chat, classify, completions, embeddings, errors, explanations, models, page, translate
from serving.gateway.gateway import Gateway
from serving.gateway.pool import Pool
from serving.gateway.settings import GatewaySettings


def create_app(settings: GatewaySettings) -> FastAPI:
    """A gateway in front of the servers that the settings name; nothing is asked before it starts."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with Pool(settings.tritons, settings.timeout_s, settings.probe_s) as pool:
            app.state.gateway = Gateway(settings=settings, pool=pool)
            yield

    app = FastAPI(title="Attendant", summary="OpenAI's API in front of Triton", lifespan=lifespan)
    errors.install(app)
    for resource in (models, completions, chat, embeddings, classify, caption, translate, explanations):
        app.include_router(resource.router)
    page.install(app)
    return app
