"""One request on a gRPC stream of its own, which can be taken back.

Taken back by a second request, never by cancelling the call: tritonserver 2.51 can deadlock or die where a cancellation
meets a response that is being written (docs/log.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import uuid4

from attendant.tensor_names import CANCEL
from clients.request_context import request_id


class RequestStream:
    """The responses to one request, as they come; use it in a running event loop."""

    def __init__(self, start: Callable[[AsyncIterator[dict[str, Any]]], Any], request: dict[str, Any]) -> None:
        """Send the request.

        Args:
            start: takes the requests of a stream, and returns an iterator over its responses.
            request: the keywords of tritonclient's ``async_stream_infer``.
        """
        self._request = {**request, "request_id": _own_id()}
        self._taken_back: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._responses = start(self._requests())
        self._next: asyncio.Future[Any] | None = None

    def next(self) -> asyncio.Future[Any]:
        """The next response and its error; None at the end of the stream."""
        self._next = asyncio.ensure_future(anext(self._responses, None))
        return self._next

    def complete(self) -> None:
        """Say that the request is answered: no other follows on this stream, and it ends."""
        if not self._taken_back.done():
            self._taken_back.set_result(False)

    async def leave(self) -> None:
        """Take the request back unless it is answered, and read what still comes."""
        if not self._taken_back.done():
            self._taken_back.set_result(True)
        last = await self._next if self._next is not None else True
        while last is not None:
            last = await self.next()

    async def _requests(self) -> AsyncIterator[dict[str, Any]]:
        yield self._request
        if await self._taken_back:
            parameters = self._request["parameters"] | {CANCEL: self._request["request_id"]}
            yield self._request | {"request_id": "", "parameters": parameters}


def _own_id() -> str:
    named = request_id.get()
    return f"{named}.{uuid4().hex}" if named else uuid4().hex  # a name may come twice: what is taken back must not
