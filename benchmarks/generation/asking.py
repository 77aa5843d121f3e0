"""One request on a stream of its own, timed: what comes, when, and how long a slot is held after it is taken back."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tritonclient.grpc import aio
from tritonclient.grpc.aio import InferInput
from tritonclient.utils import np_to_triton_dtype

from attendant.tensor_names import CANDIDATE, FINISH_REASON, OUTPUT_IDS, TEXT_OUTPUT
from benchmarks.generation.tensors import Array
from clients.request_stream import RequestStream

SILENCE_S = 60.0
"""A response that does not come within this time is a failure."""


@dataclass(slots=True)
class Answer:
    """One of a request's answers, as far as it came: its tokens, its text, and why it ended."""

    tokens: list[int] = field(default_factory=list)
    text: str = ""
    finish_reason: str = ""


@dataclass(slots=True)
class Heard:
    """What became of a request.

    Attributes:
        outcome: ``answered``, ``taken back``, ``late`` by its deadline, or ``failed``.
        error: that the server gave.
        answers: candidate → its answer.
        arrivals_s: when each response came, by the monotonic clock.
        token_times_s: when each token came; those of one response came together.
        sent_s: when it was sent.
        freed_s: from its taking back to the end of its stream, which the server sends once its slots are free.
    """

    outcome: str = "failed"
    error: str = ""
    answers: dict[int, Answer] = field(default_factory=dict)
    arrivals_s: list[float] = field(default_factory=list)
    token_times_s: list[float] = field(default_factory=list)
    sent_s: float = 0.0
    freed_s: float | None = None

    def hear(self, outputs: dict[str, Array]) -> None:
        """Add a response."""
        self.arrivals_s.append(time.monotonic())
        answer = self.answers.setdefault(int(outputs[CANDIDATE].item()), Answer())
        tokens = outputs[OUTPUT_IDS].reshape(-1).tolist()
        answer.tokens += tokens
        self.token_times_s += [self.arrivals_s[-1]] * len(tokens)
        answer.text += outputs[TEXT_OUTPUT].reshape(-1)[0].decode()
        answer.finish_reason = outputs[FINISH_REASON].reshape(-1)[0].decode()


async def ask(
    client: aio.InferenceServerClient,
    model: str,
    tensors: dict[str, Array],
    leaves_after: int | None = None,
    leaves_at_s: float | None = None,
) -> Heard:
    """Ask, listen, and perhaps take the request back.

    Args:
        client: a connection.
        model: its name.
        tensors: of the request.
        leaves_after: take it back after so many responses.
        leaves_at_s: take it back after so long.
    """
    request = {"model_name": model, "inputs": inputs(tensors), "parameters": {}, "enable_empty_final_response": True}
    heard = Heard(sent_s=time.monotonic())
    stream = RequestStream(client.stream_infer, request)
    until_s = heard.sent_s + (SILENCE_S if leaves_at_s is None else leaves_at_s)
    while leaves_after is None or len(heard.arrivals_s) < leaves_after:
        future = stream.next()
        await asyncio.wait({future}, timeout=max(0.0, until_s - time.monotonic()))  # the call is never cancelled
        if not future.done():
            heard.outcome = "failed" if leaves_at_s is None else "taken back"
            break
        if (response := future.result()) is None or _is_last(heard, *response):
            stream.complete()
            break
        until_s = until_s if leaves_at_s is not None else time.monotonic() + SILENCE_S
    else:
        heard.outcome = "taken back"
    left_s = time.monotonic()
    await stream.leave()
    if heard.outcome == "taken back":
        heard.freed_s = time.monotonic() - left_s
    return heard


def inputs(tensors: dict[str, Array]) -> list[Any]:
    """Tensors as tritonclient takes them."""
    made = []
    for name, array in tensors.items():
        made.append(InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype)))
        made[-1].set_data_from_numpy(np.ascontiguousarray(array))
    return made


def _is_last(heard: Heard, result: Any, error: Any) -> bool:
    if error is not None:
        heard.error = str(error.message())
        heard.outcome = "late" if '"code": "deadline_exceeded"' in heard.error else "failed"
        return True
    response = result.get_response()
    if response.outputs:
        heard.hear({output.name: result.as_numpy(output.name) for output in response.outputs})
    final: bool = response.parameters["triton_final_response"].bool_param
    if final:
        heard.outcome = "answered"
    return final
