"""The application: its routes, what every request passes on the way to them, and what lives as long as it runs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from serving.gateway import errors
from serving.gateway.budgets import Budgets
from serving.gateway.chat_templates import ChatTemplates
from serving.gateway.gateway import Gateway
from serving.gateway.images import Images
from serving.gateway.middleware import metrics
from serving.gateway.middleware.access import Guard
from serving.gateway.middleware.hosts import HostCheck
from serving.gateway.middleware.keys import Keys
from serving.gateway.middleware.metrics import Metrics, Upstreams
from serving.gateway.middleware.observability import Observer
from serving.gateway.routes import (
    caption,
    chat,
    classify,
    completions,
    embeddings,
    explanations,
    health,
    models,
    page,
    predict,
    responses,
    tokens,
    translate,
)
from serving.gateway.settings import GatewaySettings
from serving.gateway.upstream.pool import Pool

RESOURCES = (
    models,
    completions,
    chat,
    responses,
    tokens,
    embeddings,
    classify,
    predict,
    caption,
    translate,
    explanations,
    health,
    metrics,
)


def create_app(settings: GatewaySettings) -> FastAPI:
    """A gateway in front of the servers that the settings name; nothing is asked before it starts.

    Raises:
        ArtefactError: the file of keys is missing or damaged.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with Pool(settings.tritons, settings.timeout_s, settings.probe_s, settings.tls) as pool:
            with closing(ChatTemplates(settings.text_bytes)) as templates, closing(Images(settings)) as images:
                app.state.gateway = Gateway(
                    settings=settings,
                    pool=pool,
                    images=images,
                    tensors=Budgets(settings.tensor_bytes, 2 * settings.tensor_bytes),
                    templates=templates,
                )
                app.state.metrics.registry.register(Upstreams(pool))
                app.state.metrics.serves = pool.knows
                yield
        if app.state.tracing is not None:
            from serving.gateway.middleware.tracing import send_last_spans

            await send_last_spans(app.state.tracing)

    app = FastAPI(
        title="Attendant",
        summary="OpenAI's API in front of Triton",
        lifespan=lifespan,
        docs_url=None,  # its pages load scripts from elsewhere; ours is routes/page.py
        redoc_url=None,
    )
    app.state.metrics = Metrics()
    errors.install(app)
    for resource in RESOURCES:
        app.include_router(resource.router)
    page.install(app)
    # What is added last is passed first: spans, ids and metrics see what the guard refuses too.
    keys = Keys(settings.keys) if settings.keys is not None else None
    app.state.metrics.keys_current.set_function(lambda: float(keys is None or keys.is_current))
    if settings.cors:
        app.add_middleware(CORSMiddleware, allow_origins=settings.cors, allow_methods=["*"], allow_headers=["*"])
    app.add_middleware(Guard, keys=keys, settings=settings)
    app.add_middleware(HostCheck, settings=settings)
    app.add_middleware(Observer, metrics=app.state.metrics, traced=bool(settings.otlp))
    app.state.tracing = None
    if settings.otlp:
        from serving.gateway.middleware.tracing import trace

        app.state.tracing = trace(app, settings.otlp)
    return app
