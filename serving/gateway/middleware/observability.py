"""What is noted of every request: its id, a line in the log, and the metrics. Nothing of it is done for each token.

Every response leaves with headers by which a browser runs nothing of it; a failure that nobody foresaw is one, too.
"""

import asyncio
import logging
import re
import time
from typing import Any
from uuid import uuid4

from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clients import request_context
from serving.gateway.errors import GONE, RefusedError, body_of
from serving.gateway.middleware.metrics import Metrics

LOG = logging.getLogger("attendant.gateway")
_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
SAFE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
STOPPING = "expected a request that is over before the gateway stops; found one that is not; send it again"
MOST_TRACE = 512
"""Characters of a client's tracestate that go on to the server: gRPC takes 8 kB of metadata. Baggage does not."""
_TRACE_CONTEXT = TraceContextTextMapPropagator()
_QUIET = ("/livez", "/readyz", "/metrics")


class Observer:
    """ASGI middleware; ``scope["state"]`` has what a route left: "usage", of tokens, and "stream_error", a code."""

    def __init__(self, app: ASGIApp, metrics: Metrics, traced: bool) -> None:
        self._app, self._metrics, self._traced = app, metrics, traced

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and note what became of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began_s = time.perf_counter()
        given = Headers(scope=scope).get("x-request-id", "")
        name = given if _ID.fullmatch(given) else uuid4().hex
        request_context.request_id.set(name)
        if self._traced:
            carrier: dict[str, str] = {}
            _TRACE_CONTEXT.inject(carrier)
            request_context.headers.set({name: value for name, value in carrier.items() if len(value) <= MOST_TRACE})
        status = GONE

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["x-request-id"] = name
                for header, value in SAFE_HEADERS.items():
                    headers.setdefault(header, value)
            await send(message)

        self._metrics.open.inc()
        try:
            await self._app(scope, receive, sent)
        except asyncio.CancelledError:  # the gateway stops: the request has outlasted the drain
            if status == GONE:
                code, body, headers = body_of(RefusedError(503, STOPPING, None, {"Connection": "close"}))
                await JSONResponse(body, code, headers)(scope, receive, sent)
        except Exception as error:
            if status != GONE:  # the response has begun, and can only be cut
                raise
            code, body, headers = body_of(error)
            await JSONResponse(body, code, headers)(scope, receive, sent)
        finally:
            self._metrics.open.dec()
            self._record(scope, name, status, began_s)

    def _record(self, scope: Scope, name: str, status: int, began_s: float) -> None:
        seconds = time.perf_counter() - began_s
        state = scope.get("state", {})
        usage = state.get("usage")
        route = getattr(scope.get("route"), "path", "other")
        error = state.get("stream_error", "")
        self._metrics.record(route, status, seconds, usage, began_s, error)
        if scope["path"] in _QUIET or not LOG.isEnabledFor(logging.INFO):
            return
        fields: dict[str, Any] = {
            "request_id": name,
            "method": scope["method"],
            "path": scope["path"],
            "status": status,
        }
        fields["seconds"] = round(seconds, 6)
        if error:
            fields["error"] = error
        if state.get("key") is not None:
            fields["key"] = state["key"].name
        if usage is not None:
            fields |= usage.log_fields()
        LOG.info("request", extra={"fields": fields})
