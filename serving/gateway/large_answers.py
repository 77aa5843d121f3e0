"""Answers that are sent as a whole: bounded together before any work, and turned into JSON beside the event loop.

Each of a request's numbers has its own bound; their product would be gigabytes of one answer.
"""

import asyncio
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from pydantic_core import to_json
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from attendant.errors import InputError
from attendant.sampling_params import SamplingParams
from clients.triton_client import Array
from serving.gateway.bodies import JSON
from serving.gateway.budgets import Budget
from serving.gateway.errors import RETRY_AFTER_S, RefusedError
from serving.gateway.middleware.access import FREE_BYTES

MOST_VALUES = 1 << 19
"""Tokens, log-probabilities and weights of alignments of all answers to one request: about 20 MB of JSON."""
FEW_VALUES = 1 << 12
"""So many are turned into JSON at once: a thread would take longer."""
PART_VALUES = 1 << 14
"""So many are turned into JSON by one call: 3 ms."""
SLICE_BYTES = 1 << 18
INT32 = 2**31 - 1
_PATCHES = 1024
_TEXT_BYTES = 16


def most_tokens(options: SamplingParams, parameters: Mapping[str, Any]) -> int:
    """How many tokens one answer may have.

    Args:
        options: of the request.
        parameters: of the model.
    """
    longest = min(int(parameters.get(name, INT32)) for name in ("max_length", "max_target_length"))
    return longest if options.max_tokens is None else min(options.max_tokens, longest)


def require_bounded(
    prompts: int,
    options: SamplingParams,
    parameters: Mapping[str, Any],
    prompt_tokens: int = 0,
    logprob_values: int = 1,
) -> None:
    """Refuse a request whose answers are too much to be sent as a whole.

    Args:
        prompts: how many, each of which is answered.
        options: of each answer.
        parameters: of the model.
        prompt_tokens: of the longest prompt, which comes with the answer where its log-probabilities do.
        logprob_values: as how many values each log-probability counts.

    Raises:
        InputError: they are.
    """
    answers, tokens = prompts * options.n, most_tokens(options, parameters)
    if options.echo and options.logprobs and tokens < INT32:
        tokens += min(prompt_tokens, int(parameters.get("max_length", INT32)))
    per_token = 1 + (options.logprobs + options.top_logprobs) * logprob_values
    if options.explain:
        per_token += int(parameters.get("max_source_length", parameters.get("max_length", _PATCHES)))
    # A model that says no length generates nothing, which its stream says.
    if tokens < INT32 and answers * tokens * per_token > MOST_VALUES:
        raise InputError(
            f"answers of at most {MOST_VALUES} values together",
            f"{answers} answers of up to {tokens} tokens with {per_token} values each",
            "stream them, or send less of max_tokens, n, prompts or logprobs",
        )


def require_values(values: int) -> None:
    """Refuse tensors that are too much as JSON.

    Args:
        values: of all of them.

    Raises:
        InputError: they are.
    """
    if values > MOST_VALUES:
        expected, found = f"outputs of at most {MOST_VALUES} values as JSON", str(values)
        raise InputError(expected, found, "send the header Accept: application/x-npz, or fewer rows")


def count_values(array: Array) -> int:
    """How many values an array is as JSON: lists without values count, and of texts each sixteen bytes."""
    texts = sum(map(len, array.flat)) // _TEXT_BYTES if array.dtype.kind in "OS" else 0
    return math.prod(max(1, size) for size in array.shape) + texts


async def json_response(value: Callable[[], Any], count: int, unread: Budget | None = None) -> Response:
    """A response of JSON, made in a thread where it is large, and there in parts, which let other threads go on.

    Args:
        value: makes what is sent, which may hold arrays.
        count: about how many values that has.
        unread: which it counts in until it is read; see :class:`LargeResponse`.
    """
    if count <= FEW_VALUES:
        body = _to_json(value())
    else:
        body = await asyncio.to_thread(lambda: b"".join(_parts(value(), count)))
    return Response(body, media_type=JSON) if unread is None else LargeResponse(body, JSON, unread)


class LargeResponse(Response):
    """A response that is sent in slices, as its client reads them, and is counted till then."""

    def __init__(self, content: bytes, media_type: str, unread: Budget) -> None:
        """Send nothing yet.

        Args:
            content: the body.
            media_type: of it.
            unread: which bounds what waits for all readers, beyond the first bytes of each.
        """
        super().__init__(content, media_type=media_type)
        self._unread = unread

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it.

        Raises:
            RefusedError: too much waits for slow readers.
        """
        counted = min(max(0, len(self.body) - FREE_BYTES), self._unread.most)
        if counted and not self._unread.take(counted):
            expected = f"answers of at most {self._unread.most} bytes that wait for their readers"
            raise RefusedError(503, f"expected {expected}; found more; wait", None, {"Retry-After": RETRY_AFTER_S})
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            for start in range(0, max(1, len(self.body)), SLICE_BYTES):
                end = start + SLICE_BYTES
                more = end < len(self.body)
                await send({"type": "http.response.body", "body": self.body[start:end], "more_body": more})
        finally:
            self._unread.give_back(counted)


def _parts(value: Any, count: int) -> Iterator[bytes]:
    # The JSON of a value with about so many in it; each part is one call, in which no other thread runs.
    if isinstance(value, np.ndarray):
        count = count_values(value)
    if count <= PART_VALUES or not isinstance(value, dict | list | np.ndarray) or not len(value):
        yield _to_json(value)
        return
    if isinstance(value, dict):
        for number, (name, one) in enumerate(value.items()):
            yield (b"," if number else b"{") + _to_json(name) + b":"
            yield from _parts(one, count)
        yield b"}"
        return
    step = len(value) * PART_VALUES // count
    if isinstance(value, np.ndarray) and value.ndim == 1:
        step = max(1, step)
    for start in range(0, len(value), max(1, step)):
        yield b"," if start else b"["
        if step:
            yield _to_json(value[start : start + step])[1:-1]
        else:
            yield from _parts(value[start], count // len(value))
    yield b"]"


def _to_json(value: Any) -> bytes:
    return to_json(value, inf_nan_mode="null", fallback=_lists)


def _lists(array: Array) -> Any:
    if array.dtype.kind in "OS":
        texts = [text.decode(errors="replace") for text in array.flat]
        return np.array(texts, object).reshape(array.shape).tolist()
    return array.tolist()
