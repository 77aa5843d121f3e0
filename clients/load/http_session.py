"""One HTTP session for a load test: as many connections as there are requests in flight, and their events.

A request is cancelled by ending its task, which closes its connection.
"""

import asyncio
import errno
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import aiohttp

from attendant.errors import LateError, ServerError, UnreachableError
from clients.load.in_flight import InFlightRequest
from clients.tls import Tls, handshake_error

LONGEST_LINE = 1 << 22  # bytes of one event
MOST_BYTES = 1 << 26
"""Of one answer: a server that never ends it takes no more of our memory."""


class HttpSession:
    """Requests to one server; it is opened by the first one, in a running event loop."""

    def __init__(self, timeout_s: float, headers: dict[str, str] | None = None, tls: Tls | None = None) -> None:
        """Open nothing yet.

        Args:
            timeout_s: longest wait for the whole answer of :meth:`get` and :meth:`ask`.
            headers: that every request will carry.
            tls: how connections to https are made; like a browser's if not given.

        Raises:
            ConfigError: a file of certificates cannot be read.
        """
        self._timeout_s = timeout_s
        self._headers = headers or {}
        self._tls = tls or Tls()
        self._context = self._tls.create_context() if self._tls.is_on else True
        self._session: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def post(
        self, url: str, body: bytes, headers: dict[str, str] | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The response to a body, as soon as its headers are there.

        Raises:
            UnreachableError: nothing answers.
            ServerError: the connection broke.
        """
        try:
            async with self._opened().post(url, data=body, headers=headers, server_hostname=self._name) as response:
                yield response
        except aiohttp.ClientConnectorError as error:
            raise _unreachable(error, url) from error
        except (aiohttp.ClientError, ValueError) as error:
            raise ServerError(f"a whole answer from {url}", repr(error), "look at the server's log") from error

    async def ask(self, url: str, body: bytes, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
        """Status and body of the whole answer to a body.

        Raises:
            UnreachableError: nothing answers.
            LateError: it is not there in time.
            ServerError: the connection broke, or it is too long.
        """
        async with self._in_time(url), self.post(url, body, headers) as response:
            return response.status, await read_whole(response)

    async def get(self, url: str) -> tuple[int, dict[str, Any]]:
        """Status and JSON of a page.

        Raises:
            UnreachableError: nothing answers.
            LateError: it is not there in time.
            ServerError: what answers is no JSON object.
        """
        try:
            async with self._in_time(url), self._opened().get(url, server_hostname=self._name) as response:
                found = json.loads(await read_whole(response))
        except aiohttp.ClientError as error:
            raise _unreachable(error, url) from error
        except (ValueError, RecursionError) as error:
            raise ServerError(f"JSON from {url}", repr(error), "correct target.address") from error
        if not isinstance(found, dict):
            raise ServerError(f"a JSON object from {url}", f"{found!r:.100}", "correct target.address")
        return response.status, found

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    @asynccontextmanager
    async def _in_time(self, url: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._timeout_s):
                yield
        except TimeoutError:
            remedy = "look at the server, or allow more with target.timeout_s"
            raise LateError(f"an answer from {url} in {self._timeout_s:g} s", "none", remedy) from None

    @property
    def _name(self) -> str | None:
        return self._tls.tls_name or None

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ssl=self._context),
                timeout=aiohttp.ClientTimeout(total=None),
                headers=self._headers,
                read_bufsize=LONGEST_LINE,
            )
        return self._session


def _unreachable(error: aiohttp.ClientError, url: str) -> UnreachableError:
    remedy = "start it, or correct target.address"
    # Of a certificate that is missing a server says so or closes, and what arrives first is a matter of chance.
    is_reset = isinstance(error, OSError) and error.errno == errno.ECONNRESET and url.startswith("https:")
    return handshake_error("socket closed" if is_reset else str(error), url) or UnreachableError(
        f"a server at {url}", str(error), remedy
    )


async def read_whole(response: aiohttp.ClientResponse) -> bytes:
    """The body of a response.

    Raises:
        ServerError: it has more than :data:`MOST_BYTES` bytes.
    """
    body = bytearray()
    async for part in response.content.iter_any():
        body += part
        _check_size(len(body))
    return bytes(body)


async def read_events(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The data of each server-sent event, as it comes.

    Raises:
        ServerError: they have more than :data:`MOST_BYTES` bytes.
    """
    size = 0
    async for line in response.content:
        size += len(line)
        _check_size(size)
        if line.startswith(b"data:"):
            yield line[5:].strip()


def _check_size(size: int) -> None:
    if size > MOST_BYTES:
        raise ServerError(f"an answer of at most {MOST_BYTES} bytes", "more", "look at what target.address names")


@contextmanager
def cancel_by_closing(request: InFlightRequest) -> Iterator[None]:
    """Let a request be cancelled by ending the task that sends it; that end is then no error."""
    task = asyncio.current_task()
    assert task is not None, "a transport sends in a task"
    request.cancel = task.cancel  # type: ignore[assignment]  # its result is of no use
    try:
        yield
    except asyncio.CancelledError:
        if request.outcome is None:
            raise
        task.uncancel()
    finally:
        request.cancel = None
