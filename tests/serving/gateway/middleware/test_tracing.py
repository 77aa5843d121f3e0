import asyncio
import socket
import threading
import time
from contextlib import suppress

import pytest
from fastapi import FastAPI
from opentelemetry.baggage import set_baggage
from opentelemetry.context import attach, detach
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceState, set_span_in_context

from clients import request_context
from serving.gateway.app import create_app
from serving.gateway.middleware.metrics import Metrics
from serving.gateway.middleware.observability import Observer
from serving.gateway.middleware.tracing import LAST_S, trace
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


@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request", "307 Temporary Redirect\r\nLocation: /again"])
def test_of_a_collectors_answer_no_more_than_its_status_is_read(status):
    sent, asked = [], []

    def answer(server):
        with suppress(OSError):  # once it is closed
            while True:
                answer_one(server.accept()[0])

    def answer_one(connection):
        with connection, suppress(OSError):
            asked.append(connection.recv(65536).partition(b" HTTP/")[0])
            sent.append(0)
            connection.sendall(f"HTTP/1.1 {status}\r\n\r\n".encode())
            while sent[-1] < 1 << 28:
                sent[-1] += connection.send(b"a" * 65536)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer, args=(server,), daemon=True).start()
        provider = trace(FastAPI(), f"http://127.0.0.1:{server.getsockname()[1]}")
        provider.get_tracer("test").start_span("request").end()
        provider.shutdown()
    assert asked[0] == b"POST /v1/traces" and max(sent) < 1 << 26


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
