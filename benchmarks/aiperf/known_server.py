"""A server of OpenAI's protocol whose times are known: the first token after so long, each further one after so long.

    python benchmarks/aiperf/known_server.py PORT FIRST_MS BETWEEN_MS

Each token leaves at a time that is fixed when its request comes, so that one late wake-up delays one token and not all.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

MODEL = "known"


def application(first_s: float, between_s: float) -> Starlette:
    """The server's routes."""

    async def models(_: Request) -> JSONResponse:
        return JSONResponse({"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    async def answer(request: Request) -> StreamingResponse:
        came = asyncio.get_running_loop().time()
        asked = await request.json()
        chat = request.url.path.endswith("/chat/completions")
        tokens = int(asked.get("max_tokens") or asked.get("max_completion_tokens") or 16)
        return StreamingResponse(_events(came, tokens, chat, first_s, between_s), media_type="text/event-stream")

    paths = ("/v1/completions", "/v1/chat/completions")
    return Starlette(routes=[Route("/v1/models", models), *(Route(path, answer, methods=["POST"]) for path in paths)])


async def _events(
    came: float, tokens: int, chat: bool, first_s: float, between_s: float
) -> AsyncGenerator[bytes, None]:
    loop = asyncio.get_running_loop()
    for number in range(tokens):
        await asyncio.sleep(came + first_s + number * between_s - loop.time())
        yield _event(_choice(f"word{number} ", "length" if number == tokens - 1 else None, chat), chat)
    usage = {"prompt_tokens": 4, "completion_tokens": tokens, "total_tokens": tokens + 4}
    yield _event({"choices": [], "usage": usage}, chat)
    yield b"data: [DONE]\n\n"


def _choice(text: str, finished: str | None, chat: bool) -> dict[str, Any]:
    said: dict[str, Any] = {"delta": {"role": "assistant", "content": text}} if chat else {"text": text}
    return {"choices": [{"index": 0, "finish_reason": finished, **said}]}


def _event(value: dict[str, Any], chat: bool) -> bytes:
    kind = "chat.completion.chunk" if chat else "text_completion"
    head = {"id": "known", "model": MODEL, "created": 0, "object": kind}
    return b"data: " + json.dumps(head | value).encode() + b"\n\n"


if __name__ == "__main__":
    port, first_ms, between_ms = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
    uvicorn.run(application(first_ms / 1e3, between_ms / 1e3), port=port, log_level="error")
