import asyncio
import socket
import time

import pytest
from opentelemetry.baggage import set_baggage
from opentelemetry.context import attach, detach
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceState, set_span_in_context

from clients import request_context
from serving.gateway.app import create_app
from serving.gateway.middleware.metrics import Metrics
from serving.gateway.middleware.observability import Observer
from serving.gateway.middleware.tracing import LAST_S
from serving.gateway.settings import GatewaySettings


@pytest.mark.planted
def test_a_collector_that_says_nothing_does_not_keep_the_gateway_from_its_end():
    async def run(otlp):
        app = create_app(GatewaySettings(tritons=("127.0.0.1:1",), otlp=otlp))
        async with app.router.lifespan_context(app):
            app.state.tracing.get_tracer("test").start_span("request").end()
            began_s = time.monotonic()
        return time.monotonic() - began_s

    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert asyncio.run(run(f"http://127.0.0.1:{silent.getsockname()[1]}")) < LAST_S + 2.5


@pytest.mark.planted
def test_a_server_is_told_the_trace_of_a_request_and_no_more_than_that():
    async def run(*tracestate):
        sent = {}

        async def app(scope, receive, send):
            sent.update(request_context.headers.get())

        span = NonRecordingSpan(SpanContext(1, 2, is_remote=True, trace_state=TraceState(tracestate)))
        token = attach(set_baggage("secret", "x" * 8000, set_span_in_context(span)))
        try:
            await Observer(app, Metrics(), traced=True)(
                {"type": "http", "headers": [], "path": "/", "method": "GET"}, None, None
            )
        finally:
            detach(token)
        return sent

    assert asyncio.run(run(("a", "b"))).keys() == {"traceparent", "tracestate"}
    many = [(f"key{number}", "x" * 200) for number in range(32)]
    assert asyncio.run(run(*many)).keys() == {"traceparent"}
