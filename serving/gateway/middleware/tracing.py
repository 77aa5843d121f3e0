"""Traces by OpenTelemetry: one span a request, of which Triton's spans are children."""

import asyncio
from io import BytesIO
from threading import Thread
from typing import Any

import requests
from fastapi import FastAPI
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from requests.adapters import HTTPAdapter

SERVICE = "attendant-gateway"
LAST_S = 2.0
"""How long a collector may take the last spans at the end."""
_UNTRACED = "livez,readyz,metrics"


def trace(app: FastAPI, endpoint: str) -> TracerProvider:
    """Send a span of every request to a collector; without a span for each event of a stream.

    Args:
        app: the application.
        endpoint: the collector's base URL, OTLP over HTTP.

    Returns:
        What to shut down at the end, so that the last spans leave.
    """
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: SERVICE}))
    session = requests.Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, _StatusAdapter())
    exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces", session=session)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    FastAPIInstrumentor.instrument_app(
        app, tracer_provider=provider, excluded_urls=_UNTRACED, exclude_spans=["send", "receive"]
    )
    return provider


class _StatusAdapter(HTTPAdapter):
    # Of a collector's answer its status alone: what follows may have no end.

    def send(self, *args: Any, **kwargs: Any) -> requests.Response:
        answer = super().send(*args, **{**kwargs, "stream": True})
        answer.raw.close()
        answer.raw = BytesIO()
        return answer


async def send_last_spans(provider: TracerProvider) -> None:
    """Shut a provider down; what its collector does not take within :data:`LAST_S` is lost."""
    ending = Thread(target=provider.shutdown, daemon=True)  # it waits for the collector, for up to 30 s
    ending.start()
    await asyncio.to_thread(ending.join, LAST_S)
