"""Requests to a gateway: JSON and forms that are nearly right, over many connections that stay open."""

import asyncio
import base64
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
from hypothesis import strategies as st

from benchmarks.fuzz.drawing import draw_inputs
from benchmarks.fuzz.outcome import HANG_S, Budget, Outcome
from benchmarks.fuzz.parsers import sample_images
from benchmarks.fuzz.strategies import LEAVES, changed, damaged, write_json

CONNECTIONS = 32
REFUSED = (429, 499)
"""Statuses of requests that were right, and came at a bad time."""
JSON, FORM = "application/json", "multipart/form-data; boundary=line"
_TEXT = {
    "temperature": 0.5,
    "top_p": 0.9,
    "seed": 3,
    "stop": ["x"],
    "max_tokens": 2,
    "logit_bias": {"5": 1.0},
    "presence_penalty": 0.1,
}
_SCHEMA = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
_MORE = ("n", "best_of", "regex", "response_format", "logprobs", "top_logprobs", "min_tokens", "beam_width", "extra")


@dataclass(frozen=True, slots=True)
class HttpInput:
    """One request."""

    path: str
    body: bytes
    kind: str = JSON
    method: str = "POST"

    def to_bytes(self) -> bytes:
        return f"{self.method} {self.path}\r\nContent-Type: {self.kind}\r\n\r\n".encode() + self.body


def bodies() -> Mapping[str, dict[str, Any]]:
    """Route → the body of a request that is right, or nearly."""
    image = base64.b64encode(sample_images()[0]).decode()
    return {
        "/v1/completions": {"model": "stdlib-lm", "prompt": "Open a file", **_TEXT},
        "/v1/chat/completions": {
            "model": "stdlib-lm",
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
            "response_format": _SCHEMA,
            "max_tokens": 2,
        },
        "/v1/translate": {"model": "dates-transformer", "input": "3rd of march 1997", "max_tokens": 2, "stop": ["-"]},
        "/v1/responses": {"model": "stdlib-lm", "input": "Open a file", "max_output_tokens": 2, "temperature": 0.5},
        "/tokenize": {"model": "stdlib-lm", "prompt": "Open a file", "return_token_strs": True},
        "/detokenize": {"model": "stdlib-lm", "tokens": [5, 6]},
        "/v1/classify": {"model": "digits-vit", "image": image, "top_k": 2},
        "/v1/explain": {"model": "digits-vit", "image": image, "layer": 1, "format": "json"},
        # No model here is for the rest: their bodies are read, and the models refused.
        "/v1/embeddings": {"model": "digits-vit", "input": ["a", "b"], "encoding_format": "float"},
        "/v1/predict": {"model": "digits-vit", "inputs": {"image": [[0.5]]}},
        "/v1/caption": {"model": "digits-vit", "image": image, "max_tokens": 2},
    }


@st.composite
def _forms(draw: st.DrawFn) -> HttpInput:
    file = draw(st.one_of([damaged(one) for one in sample_images()]))
    fields = {"model": "digits-vit", "top_k": draw(LEAVES)}
    parts = [
        f'--line\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields.items()
    ]
    head = '--line\r\nContent-Disposition: form-data; name="image"; filename="a.png"\r\nContent-Type: image/png\r\n\r\n'
    body = "".join(parts).encode("utf-8", "replace") + head.encode() + file + b"\r\n--line--\r\n"
    return HttpInput("/v1/classify", draw(damaged(body)) if draw(st.integers(0, 3)) == 0 else body, FORM)


def http_inputs() -> st.SearchStrategy[HttpInput]:
    """Requests to every route that takes a body."""
    kinds: list[st.SearchStrategy[HttpInput]] = [_forms()]
    for path, body in bodies().items():

        def to_input(value: dict[str, Any], path: str = path) -> HttpInput:
            return HttpInput(path, write_json(value))

        def to_damaged(data: bytes, path: str = path) -> HttpInput:
            return HttpInput(path, data)

        kinds += [changed(body, _MORE).map(to_input), changed(body, _MORE).map(to_input)]
        kinds.append(damaged(write_json(body)).map(to_damaged))
    return st.one_of(kinds)


class GatewayFuzzer:
    """Sends inputs to a gateway as they are drawn, some dozens at a time."""

    def __init__(self, address: str, outcome: Outcome) -> None:
        self._address, self.outcome = address, outcome
        self._loop = asyncio.new_event_loop()
        self._session: aiohttp.ClientSession | None = None
        self._waiting: list[HttpInput] = []

    def run(self, budget: Budget, number: int, after_batch: Any) -> Outcome:
        """Send until the budget is spent.

        Args:
            budget: how many, and for how long.
            number: the seed.
            after_batch: called after every few dozen inputs.
        """
        began = time.monotonic()

        def draw(one: HttpInput) -> None:
            self._waiting.append(one)
            if len(self._waiting) == CONNECTIONS:
                self._loop.run_until_complete(self._flush())
                after_batch()

        draw_inputs(http_inputs(), budget, number, draw)
        self._loop.run_until_complete(self._close())
        self._loop.close()
        self.outcome.seconds = time.monotonic() - began
        return self.outcome

    async def _flush(self) -> None:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=2 * HANG_S)
            connector = aiohttp.TCPConnector(limit=CONNECTIONS)
            self._session = aiohttp.ClientSession(f"http://{self._address}", timeout=timeout, connector=connector)
        waiting, self._waiting = self._waiting, []
        await asyncio.gather(*(self._send(self._session, one) for one in waiting))

    async def _send(self, session: aiohttp.ClientSession, one: HttpInput) -> None:
        began, failure = time.monotonic(), ""
        headers = {"Content-Type": one.kind}
        try:
            async with session.request(one.method, one.path, data=one.body, headers=headers) as response:
                text = await response.text(errors="replace")
            answer = f"{response.status} {_code_of(text)}" if response.status >= 400 else str(response.status)
            if response.status >= 500:
                failure, answer = f"{response.status}", f"{answer} {text[:200]}"
            elif response.status >= 400 and response.status not in REFUSED and not _code_of(text):
                failure, answer = "an error without a record", f"{response.status} {text[:200]}"
        except TimeoutError:
            answer, failure = "no answer", "hang"
        except aiohttp.ClientError as error:
            answer = failure = f"connection: {type(error).__name__}"
        self.outcome.add(answer[:60], one.to_bytes(), time.monotonic() - began, failure)
        if failure:
            self.outcome.examples[failure] = answer

    async def _close(self) -> None:
        await self._flush()
        assert self._session is not None
        await self._session.close()


def _code_of(text: str) -> str:
    try:
        return str(json.loads(text)["error"]["code"])
    except (ValueError, KeyError, TypeError):
        return ""
