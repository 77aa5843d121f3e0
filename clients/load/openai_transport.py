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
from attendant.sampling_params import is_set
from attendant.tensor_names import POOLED
from clients.load.http_session import HttpSession, cancel_by_closing, read_events
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
_DONE = b"[DONE]"
_OK = 200
_STATUSES: dict[int, type[AttendantError]] = {
    400: InputError,
    404: UnknownNameError,
    408: DeadlineError,
    413: InputError,
    422: InputError,
    429: BusyError,
    503: UnreachableError,
    504: DeadlineError,
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
        self._session = HttpSession({"Content-Type": "application/json", **_read_key(target.key_file)}, target.security)

    async def model(self, name: str) -> ServedModel | None:
        """Such a server describes no inputs: None, once it is known to have the model."""
        status, found = await self._session.get(f"{self._root}/models")
        names = [one["id"] for one in found.get("data", [])] if status == _OK else [name]
        if name not in names:
            there = ", ".join(sorted(names))
            raise unknown_name("model", name, names, f"correct workloads.model: {self._root} has {there}")
        return None

    async def prepare(
        self, workload: Workload, model: ServedModel | None, inputs: Sequence[RequestInput]
    ) -> list[OpenAIRequest]:
        """One body for each input; see :meth:`Transport.prepare`."""
        kind, stream = workload.endpoint, workload.stream and workload.endpoint != "embeddings"
        bodies = [json.dumps(_create_body(workload, one, stream)).encode() for one in inputs]
        return [OpenAIRequest(self._root + _PATHS[kind], body, kind, stream) for body in bodies]

    async def count_tokens(
        self, workload: Workload, model: ServedModel | None, inputs: Sequence[RequestInput]
    ) -> list[int]:
        """Zeros: the server says it with each answer."""
        return [0] * len(inputs)

    async def send(self, prepared: OpenAIRequest, request: InFlightRequest) -> None:
        """Send a request; see :meth:`Transport.send`."""
        request.mark_sent()
        with cancel_by_closing(request):
            async with self._session.post(prepared.url, prepared.body) as response:
                if response.status != _OK:
                    raise _error(response.status, await response.read())
                if prepared.stream:
                    await _read_stream(response, request)
                else:
                    _read_whole(await response.read(), prepared.kind, request)

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
            raise _error(int(answer["error"].get("code") or 500), data)
        usage = answer.get("usage") or {}
        total = usage.get("completion_tokens", total)
        request.input_tokens = usage.get("prompt_tokens", request.input_tokens)
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
    usage = answer.get("usage") or {}
    request.add_response(usage.get("completion_tokens", 0))
    request.input_tokens = usage.get("prompt_tokens", 0)
    if kind == "embeddings":
        vectors = [one["embedding"] for one in answer["data"]]
        request.outputs = lambda: {POOLED: np.asarray(vectors, np.float32)}
        return
    choice = answer["choices"][0]
    request.text = choice["message"]["content"] if kind == "chat" else choice["text"]
    request.finish_reason = choice["finish_reason"]


def _create_body(workload: Workload, request_input: RequestInput, stream: bool) -> dict[str, Any]:
    body: dict[str, Any] = {"model": workload.model}
    if workload.endpoint == "embeddings":
        return body | {"input": request_input.text} | workload.parameters
    if workload.endpoint == "chat":
        body["messages"] = [{"role": "user", "content": request_input.text}]
    else:
        body["prompt"] = request_input.text
    params = sampling_params(workload, request_input)
    body |= {name: getattr(params, name) for name in _FIELDS if is_set(params, name)}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body | workload.parameters


def _error(status: int, content: bytes) -> AttendantError:
    try:
        error = json.loads(content)["error"]
        message = str(error.get("message", error) if isinstance(error, dict) else error)
    except (ValueError, KeyError, TypeError):
        message = content.decode(errors="replace")[:200]
    return _STATUSES.get(status, ServerError)("an answer", f"{status}: {message}", "see what the server says")


def _read_key(name: str) -> dict[str, str]:
    if not name:
        return {}
    try:
        return {"Authorization": f"Bearer {Path(name).read_text(encoding='utf-8').strip()}"}
    except OSError as error:
        raise InputError(f"a key in {name}", str(error), "correct target.key_file") from error
