"""Before a request is read: its key, its key's limits, and how large a body may be and how long it may take to come."""

import asyncio

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from serving.gateway.errors import RefusedError, body_of
from serving.gateway.middleware.keys import Key, Keys
from serving.gateway.middleware.quotas import Quotas

GUARDED = "/v1/"
BODY_S = 30.0
"""Longest time in which a body must have come."""


class Guard:
    """ASGI middleware; a request's key is ``scope["state"]["key"]``."""

    def __init__(self, app: ASGIApp, keys: Keys | None, body_bytes: int) -> None:
        self._app, self._keys, self._body_bytes = app, keys, body_bytes
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
            if length.isdigit() and int(length) > self._body_bytes:
                raise RefusedError(413, _too_large(self._body_bytes))
        except RefusedError as error:
            status, body, more = body_of(error)
            await JSONResponse(body, status, more)(scope, receive, send)
            return
        state["key"] = key
        try:
            await self._app(scope, self._limit_body(receive), _with_headers(send, headers) if headers else send)
        finally:
            if key is not None and "usage" in state:
                self._quotas.charge(key, state["usage"].tokens)

    def _admit(self, scope: Scope) -> tuple[Key | None, dict[str, str]]:
        if self._keys is None or not scope["path"].startswith(GUARDED) or scope["method"] == "OPTIONS":
            return None, {}
        kind, _, secret = Headers(scope=scope).get("authorization", "").partition(" ")
        key = self._keys.find(secret.strip()) if kind.lower() == "bearer" else None
        if key is None:
            found = "another" if secret else "none"
            message = (
                f"expected an API key in Authorization: Bearer …; found {found}; ask who runs this gateway for one"
            )
            raise RefusedError(401, message, None, {"WWW-Authenticate": "Bearer"})
        return key, self._quotas.admit(key)

    def _limit_body(self, receive: Receive) -> Receive:
        ends_s = asyncio.get_running_loop().time() + BODY_S
        taken, whole = 0, False

        async def receive_limited() -> Message:
            nonlocal taken, whole
            if whole:
                return await receive()
            try:
                async with asyncio.timeout_at(ends_s):
                    message = await receive()
            except TimeoutError as error:
                raise HTTPException(
                    408, f"expected a whole body within {BODY_S:g} s; found less; send it faster"
                ) from error
            taken += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if taken > self._body_bytes:
                raise HTTPException(413, _too_large(self._body_bytes))
            return message

        return receive_limited


def _with_headers(send: Send, headers: dict[str, str]) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(headers)
        await send(message)

    return sent


def _too_large(most: int) -> str:
    return f"expected a body of at most {most} bytes; found more; send less at a time"
