"""Before a request is read: its key, its key's limits, and how large a body may be and how long it may take to come."""

import asyncio

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from serving.gateway.budgets import Share, Shares
from serving.gateway.errors import RETRY_AFTER_S, RefusedError, body_of
from serving.gateway.middleware.keys import Key, Keys
from serving.gateway.middleware.quotas import Quotas
from serving.gateway.settings import GatewaySettings

UNCOUNTED = ("/metrics", "/livez", "/readyz", "/docs")
"""Where requests count for no limit of a key."""
WITHOUT_TOKENS = ("/v1/models", "/v1/predict", "/tokenize", "/detokenize", "/openapi.json")
"""Where they do so as requests alone."""
OPEN = ("/", "/docs", "/livez", "/readyz")
OPEN_FOLDER = "/playground/"
BODY_S = 30.0
"""Longest time in which a body must have come."""
FREE_BYTES = 1 << 16
"""Of each body: so small ones are answered however many large ones are under way."""


class Guard:
    """ASGI middleware; a request's key is ``scope["state"]["key"]``, its tokens are reserved at ``["quotas"]``."""

    def __init__(self, app: ASGIApp, keys: Keys | None, settings: GatewaySettings) -> None:
        self._app, self._keys, self._body_bytes = app, keys, settings.body_bytes
        self._bodies = Shares(settings.bodies_bytes, max(settings.bodies_bytes * 3 // 4, settings.body_bytes))
        self._quotas = Quotas()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        try:
            key, headers = self._admit(scope)
            length = Headers(scope=scope).get("content-length", "0")
            length = length.lstrip("0") or length[-1:]
            if len(length) > len(str(self._body_bytes)) or not length.isdecimal() or int(length) > self._body_bytes:
                raise RefusedError(413, _too_large(self._body_bytes))
        except RefusedError as error:
            status, body, more = body_of(error)
            await JSONResponse(body, status, more)(scope, receive, send)
            return
        state |= {"key": key, "quotas": self._quotas, "reserved": 0}
        coming = _Body(self._body_bytes, self._bodies.of(owner_of(scope)), receive)
        try:
            await self._app(scope, coming.receive, _with_headers(send, headers) if headers else send)
        finally:
            coming.forget()
            if key is not None:
                used = state["usage"].tokens + state["usage"].unanswered if "usage" in state else 0
                self._quotas.settle(key, state["reserved"], used)

    def _admit(self, scope: Scope) -> tuple[Key | None, dict[str, str]]:
        if self._keys is None or scope["method"] == "OPTIONS":
            return None, {}
        kind, _, secret = Headers(scope=scope).get("authorization", "").partition(" ")
        key = self._keys.find(secret.strip()) if kind.lower() == "bearer" else None
        path = scope["path"]
        if key is None and not (path in OPEN or path.startswith(OPEN_FOLDER)):
            unknown = "one that is not among its keys" if kind.lower() == "bearer" else f"the scheme {kind[:20]}"
            found = unknown if secret else "none"
            message = (
                f"expected an API key in Authorization: Bearer …; found {found}; ask who runs this gateway for one"
            )
            raise RefusedError(401, message, None, {"WWW-Authenticate": "Bearer"})
        if key is None or path in UNCOUNTED or path == "/" or path.startswith(OPEN_FOLDER):
            return key, {}
        return key, self._quotas.admit(key, takes_tokens=not path.startswith(WITHOUT_TOKENS))


def owner_of(scope: Scope) -> str:
    """Who sent a request: the name of its key, or where there is none its address."""
    key: Key | None = scope["state"].get("key")
    address, _ = scope.get("client") or ("", 0)
    return str(address) if key is None else key.name


class _Body:
    """A body that comes: its size, its time, and its part of what all bodies together may take."""

    def __init__(self, most: int, budget: Share, receive: Receive) -> None:
        self._most, self._budget, self._receive = most, budget, receive
        self._ends_s = asyncio.get_running_loop().time() + BODY_S
        self._bytes = self._taken = 0
        self._whole = False

    async def receive(self) -> Message:
        if self._whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._ends_s):
                message = await self._receive()
        except TimeoutError as error:
            raise HTTPException(
                408, f"expected a whole body within {BODY_S:g} s; found less; send it faster"
            ) from error
        self._bytes += len(message.get("body", b""))
        self._whole = not message.get("more_body", False)
        if self._bytes > self._most:
            raise HTTPException(413, _too_large(self._most))
        counted = max(0, self._bytes - FREE_BYTES) - self._taken
        if counted and not self._budget.take(counted):
            found = f"expected bodies of at most {self._budget.most} bytes at once; found more; wait"
            raise HTTPException(503, found, {"Retry-After": RETRY_AFTER_S})
        self._taken += counted
        return message

    def forget(self) -> None:
        """Return its part, once the request is over."""
        self._budget.give_back(self._taken)
        self._taken = 0


def _with_headers(send: Send, headers: dict[str, str]) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(headers)
        await send(message)

    return sent


def _too_large(most: int) -> str:
    return f"expected a body of at most {most} bytes; found more; send less at a time"
