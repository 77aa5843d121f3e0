"""A server of OpenAI's protocol whose times are known: the first token after so long, each further one after so long.

    python -m benchmarks.aiperf.known_server PORT FIRST_MS BETWEEN_MS

Each token leaves at a time that is fixed when its request comes, so that one late wake-up delays one token and not all.
"""

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
    async def models(_: Request) -> JSONResponse:
        return JSONResponse({"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    async def answer(request: Request) -> StreamingResponse:
        came_s, body = asyncio.get_running_loop().time(), await request.json()
        tokens = int(body.get("max_tokens") or body.get("max_completion_tokens") or 16)
        chat = request.url.path.endswith("/chat/completions")
        times_s = [came_s + first_s + number * between_s for number in range(tokens)]
        return StreamingResponse(events(times_s, chat), media_type="text/event-stream")

    paths = ("/v1/completions", "/v1/chat/completions")
    return Starlette(routes=[Route("/v1/models", models), *(Route(path, answer, methods=["POST"]) for path in paths)])


async def events(times_s: list[float], chat: bool) -> AsyncGenerator[bytes, None]:
    kind = "chat.completion.chunk" if chat else "text_completion"
    head = {"id": "known", "model": MODEL, "created": 0, "object": kind}

    def event(value: dict[str, Any]) -> bytes:
        return b"data: " + json.dumps(head | value).encode() + b"\n\n"

    for number, at_s in enumerate(times_s):
        await asyncio.sleep(at_s - asyncio.get_running_loop().time())
        text = f"word{number} "
        content: dict[str, Any] = {"delta": {"role": "assistant", "content": text}} if chat else {"text": text}
        finished = "length" if number == len(times_s) - 1 else None
        yield event({"choices": [{"index": 0, "finish_reason": finished, **content}]})
    usage = {"prompt_tokens": 4, "completion_tokens": len(times_s), "total_tokens": len(times_s) + 4}
    yield event({"choices": [], "usage": usage})
    yield b"data: [DONE]\n\n"


if __name__ == "__main__":
    port, first_ms, between_ms = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
    uvicorn.run(application(first_ms / 1e3, between_ms / 1e3), port=port, log_level="error")
