"""As little of an HTTP/1.1 client as a benchmark needs: one connection that is kept, JSON in, a body or events out.

A usual client takes half a millisecond a request itself, which is not the gateway's.
"""

import asyncio
import json
from typing import Any, Self


class BareClient:
    """One connection to a server on this machine; an asynchronous context manager, for one request after another."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def post(self, path: str, body: dict[str, Any]) -> bytes:
        """The body of the answer, which must be a success."""
        self.send(path, body)
        headers = await self.read_headers()
        return await self._reader.readexactly(int(headers["content-length"]))

    async def events(self, path: str, body: dict[str, Any]) -> int:
        """How many events came; the last one says the end."""
        self.send(path, body)
        await self.read_headers()
        text = b""
        while size := int(await self._reader.readline(), 16):
            text += await self._reader.readexactly(size)
            await self._reader.readline()
        await self._reader.readline()
        assert text.endswith(b"data: [DONE]\n\n"), text[-200:]
        return text.count(b"data: ") - 1

    def send(self, path: str, body: dict[str, Any]) -> None:
        """Send a request, and wait for nothing."""
        sent = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        head += f"Content-Length: {len(sent)}\r\n\r\n"
        self._writer.write(head.encode() + sent)

    async def read_headers(self) -> dict[str, str]:
        """Of the answer, which must be a success."""
        status = await self._reader.readline()
        headers = {}
        while line := (await self._reader.readline()).strip():
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        assert b" 200 " in status, status + await self._reader.read(1000)
        return headers
