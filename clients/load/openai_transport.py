"""Any server of OpenAI's protocol: chat, completions and embeddings, streamed as server-sent events.

An event may bring several tokens, and does not say how many: where the server counts as it goes (usage in each event),
its count is taken; else the count of the whole answer is spread evenly over the events, or each counts as one token.
Source: OpenAI's API reference; vLLM's names for what that lacks (top_k, min_p, ignore_eos, continuous_usage_stats).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attendant.errors import (
    AttendantError,
    BusyError,
    DeadlineError,
    InputError,
    ServerError,
    UnknownNameError,
    UnreachableError,
    unknown_name,
)
from attendant.records import parse_json, read_file
from attendant.sampling_params import is_set
from attendant.tensor_names import POOLED
from clients.load.http_session import HttpSession, cancel_by_closing, read_events, read_whole
from clients.load.in_flight import InFlightRequest
from clients.load.request_inputs import RequestInput
from clients.load.request_tensors import sampling_params
from clients.load.scenario import Target, Workload
from clients.served_model import ServedModel

_PATHS = {"chat": "/chat/completions", "completions": "/completions", "embeddings": "/embeddings"}
_FIELDS = (
    *("max_tokens", "temperature", "top_p", "presence_penalty", "frequency_penalty", "seed", "n", "stop", "logit_bias"),
    *("top_k", "min_p", "min_tokens", "repetition_penalty", "ignore_eos", "stop_token_ids"),
)
"""OpenAI's parameters, and those that vLLM's server takes as well."""
MOST_PREPARED_BYTES = 1 << 29
"""Of all requests of a workload: they are prepared before the run."""
_DONE = b"[DONE]"
_OK = 200
MOST_TOKENS = 1 << 32
_ERRORS: dict[int | str, type[AttendantError]] = {
    400: InputError,
    404: UnknownNameError,
    408: DeadlineError,
    413: InputError,
    422: InputError,
    429: BusyError,
    503: UnreachableError,
    504: DeadlineError,
    **{kind.code: kind for kind in (InputError, UnknownNameError, BusyError, DeadlineError, UnreachableError)},
}


@dataclass(slots=True)
class OpenAIRequest:
    """A request as it travels."""

    url: str
    body: bytes
    kind: str
    stream: bool


class OpenAITransport:
    """Connections to a server of OpenAI's protocol."""

    def __init__(self, target: Target) -> None:
        """Send nothing yet.

        Raises:
            InputError: the key's file cannot be read.
        """
        self.notes: dict[str, str] = {}
        self._root = target.address.rstrip("/")
        headers = {"Content-Type": "application/json", **_read_key(target.key_file)}
        self._session = HttpSession(target.timeout_s, headers, target.security)

    async def model(self, name: str) -> ServedModel | None:
        """Such a server describes no inputs: None, once it is known to have the model."""
        status, found = await self._session.get(f"{self._root}/models")
        try:
            names = [str(one["id"]) for one in found.get("data", [])] if status == _OK else [name]
        except (LookupError, TypeError) as error:
            raise ServerError("a list of models", f"{found!r:.100}", "correct target.address") from error
        if name not in names:
            there = ", ".join(sorted(names))
            raise unknown_name("model", name, names, f"correct workloads.model: {self._root} has {there}")
        return None

    async def prepare(
        self, workload: Workload, model: ServedModel | None, inputs: Sequence[RequestInput]
    ) -> list[OpenAIRequest]:
        """One body for each input; see :meth:`Transport.prepare`."""
        kind, stream = workload.endpoint, workload.stream and workload.endpoint != "embeddings"
        prepared, size = [], 0
        for one in inputs:
            body = json.dumps(_create_body(workload, one, stream)).encode()
            size += len(body)
            if size > MOST_PREPARED_BYTES:
                expected = f"requests of at most {MOST_PREPARED_BYTES >> 20} MiB in all"
                raise InputError(expected, "more", "send fewer or shorter inputs")
            prepared.append(OpenAIRequest(self._root + _PATHS[kind], body, kind, stream))
        return prepared

    async def count_tokens(
        self, workload: Workload, model: ServedModel | None, inputs: Sequence[RequestInput]
    ) -> list[int]:
        """Zeros: the server says it with each answer."""
        return [0] * len(inputs)

    async def probe_tokens(self, workload: Workload, model: ServedModel | None, request_input: RequestInput) -> int:
        """What the server says in ``usage.prompt_tokens``; see :meth:`Transport.probe_tokens`."""
        body = _create_body(workload, request_input, stream=False)
        if workload.endpoint != "embeddings":
            body = {name: value for name, value in body.items() if name not in ("min_tokens", "n")} | {"max_tokens": 1}
        status, content = await self._session.ask(self._root + _PATHS[workload.endpoint], json.dumps(body).encode())
        if status != _OK:
            raise _error(status, content)
        return _count_tokens(parse_json(content), "prompt_tokens")

    async def send(self, prepared: OpenAIRequest, request: InFlightRequest) -> None:
        """Send a request; see :meth:`Transport.send`."""
        request.mark_sent()
        with cancel_by_closing(request):
            async with self._session.post(prepared.url, prepared.body) as response:
                if response.status != _OK:
                    raise _error(response.status, await read_whole(response))
                if prepared.stream:
                    await _read_stream(response, request)
                else:
                    _read_whole(await read_whole(response), prepared.kind, request)

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()


async def _read_stream(response: Any, request: InFlightRequest) -> None:
    total, noted = 0, 0
    async for data in read_events(response):
        if data == _DONE:
            break
        answer = json.loads(data)
        if "error" in answer:
            raise _error(0, data)
        total = _count_tokens(answer, "completion_tokens", total)
        request.input_tokens = _count_tokens(answer, "prompt_tokens", request.input_tokens)
        for choice in answer.get("choices", ()):
            text = choice.get("text") or (choice.get("delta") or {}).get("content") or ""
            if text:
                request.add_response(max(0, total - noted) if total else 1)
                noted = total
            if choice.get("index", 0) == 0:
                request.text += text
                request.finish_reason = choice.get("finish_reason") or request.finish_reason
    else:
        raise ServerError("a stream that ends with [DONE]", "it ended before", "look at the server's log")
    if not request.finish_reason:
        raise ServerError("a finish_reason in the last event", "none", "look at the server's log")
    if total:
        if sum(request.tokens) != total and request.tokens:
            ends = np.arange(len(request.tokens) + 1) * total // len(request.tokens)
            request.tokens = np.diff(ends).tolist()
        request.token_count = total


def _read_whole(content: bytes, kind: str, request: InFlightRequest) -> None:
    answer = json.loads(content)
    request.add_response(_count_tokens(answer, "completion_tokens"))
    request.input_tokens = _count_tokens(answer, "prompt_tokens")
    if kind == "embeddings":
        vectors = [one["embedding"] for one in answer["data"]]
        request.outputs = lambda: {POOLED: np.asarray(vectors, np.float32)}
        return
    choice = answer["choices"][0]
    request.text = choice["message"]["content"] if kind == "chat" else choice["text"]
    request.finish_reason = choice["finish_reason"]


def _count_tokens(answer: Any, name: str, before: int = 0) -> int:
    usage = answer.get("usage") if isinstance(answer, dict) else answer
    if not isinstance(usage or {}, dict):
        raise ServerError("an object of usage", f"{usage!r:.100}", "look at the server")
    found = (usage or {}).get(name)
    if found is None:
        return before
    if type(found) is not int or not 0 <= found <= MOST_TOKENS:
        raise ServerError(f"a number of tokens as {name}", f"{found!r:.100}", "look at the server")
    return found


def _create_body(workload: Workload, request_input: RequestInput, stream: bool) -> dict[str, Any]:
    body: dict[str, Any] = {"model": workload.model}
    if workload.endpoint == "embeddings":
        return body | {"input": request_input.text} | workload.parameters
    if workload.endpoint == "chat":
        alone = ({"role": "user", "content": request_input.text},) if not request_input.messages else ()
        body["messages"] = list(request_input.messages or alone)
    else:
        body["prompt"] = request_input.text
    params = sampling_params(workload, request_input)
    body |= {name: getattr(params, name) for name in _FIELDS if is_set(params, name)}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body | workload.parameters


def _error(status: int, content: bytes) -> AttendantError:
    # Within a stream, whose status was 200 long ago, the error itself may say which: by number, or by our own words.
    code: object = status
    try:
        error = json.loads(content)["error"]
        message = str(error.get("message", error) if isinstance(error, dict) else error)
        code = status or error["code"]
    except (ValueError, KeyError, TypeError):
        message = content.decode(errors="replace")[:200]
    kind = _ERRORS.get(code if isinstance(code, int | str) else 0, ServerError)
    return kind("an answer", f"{code}: {message}", "see what the server says")


def _read_key(name: str) -> dict[str, str]:
    if not name:
        return {}
    try:
        return {"Authorization": f"Bearer {read_file(Path(name)).decode().strip()}"}
    except (OSError, ValueError) as error:
        raise InputError(f"a key in {name}", str(error), "correct target.key_file") from error
