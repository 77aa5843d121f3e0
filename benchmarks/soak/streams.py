"""One request on a stream of its own: what comes, when, and how long its slots are held after it is cancelled.

`clients.load` cancels a share of a workload's requests alike; here each request has options and a fate of its own.
"""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from tritonclient.grpc import aio
from tritonclient.grpc.aio import InferInput
from tritonclient.utils import np_to_triton_dtype

from attendant.sampling_params import SamplingParams
from attendant.sampling_tensors import prompt_tensors, tensors_of
from attendant.tensor_names import CANDIDATE, FINISH_REASON, OUTPUT_IDS, PIXELS, STREAM, TEXT_OUTPUT
from clients.calls import RequestStream

SILENCE_S = 60.0
"""A response that does not come within this time is a failure."""
Array = NDArray[Any]
Outcome = Literal["completed", "cancelled", "deadline exceeded", "failed"]


@dataclass(slots=True)
class StreamedAnswer:
    """One of a request's answers, as far as it came: its tokens, its text, and why it ended."""

    tokens: list[int] = field(default_factory=list)
    text: str = ""
    finish_reason: str = ""


@dataclass(slots=True)
class StreamRecord:
    """What became of a request.

    Attributes:
        answers: by candidate.
        arrivals_s: when each response came, by the monotonic clock.
        freed_s: from its cancelling to the end of its stream, which the server sends once its slots are free.
    """

    outcome: Outcome = "failed"
    error: str = ""
    answers: dict[int, StreamedAnswer] = field(default_factory=dict)
    arrivals_s: list[float] = field(default_factory=list)
    sent_s: float = 0.0
    freed_s: float | None = None

    def add(self, result: Any, error: Any) -> bool:
        """Take a response or an error; whether it is the last."""
        if error is not None:
            self.error = str(error.message())
            self.outcome = "deadline exceeded" if '"code": "deadline_exceeded"' in self.error else "failed"
            return True
        response = result.get_response()
        if response.outputs:
            outputs = {output.name: result.as_numpy(output.name) for output in response.outputs}
            self.arrivals_s.append(time.monotonic())
            answer = self.answers.setdefault(int(outputs[CANDIDATE].item()), StreamedAnswer())
            answer.tokens += outputs[OUTPUT_IDS].reshape(-1).tolist()
            answer.text += outputs[TEXT_OUTPUT].reshape(-1)[0].decode()
            answer.finish_reason = outputs[FINISH_REASON].reshape(-1)[0].decode()
        final: bool = response.parameters["triton_final_response"].bool_param
        if final:
            self.outcome = "completed"
        return final


def request_tensors(prompt: Any, options: SamplingParams, stream: bool) -> dict[str, Array]:
    """What travels of a text, token ids or an image: name → array with a batch of one."""
    is_text = isinstance(prompt, str | list)
    source = prompt_tensors(prompt) if is_text else {PIXELS: np.ascontiguousarray(prompt)[None]}
    return {**source, **tensors_of(options), STREAM: np.array([[stream]])}


async def send(
    client: aio.InferenceServerClient,
    model: str,
    tensors: dict[str, Array],
    cancel_after: int | None = None,
    cancel_at_s: float | None = None,
) -> StreamRecord:
    """Send a request, read its responses, and perhaps cancel it, after so many of them or so many seconds."""
    inputs = []
    for name, array in tensors.items():
        inputs.append(InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype)))
        inputs[-1].set_data_from_numpy(np.ascontiguousarray(array))
    request = {"model_name": model, "inputs": inputs, "parameters": {}, "enable_empty_final_response": True}
    record = StreamRecord(sent_s=time.monotonic())
    stream = RequestStream(client.stream_infer, request)
    until_s = record.sent_s + (SILENCE_S if cancel_at_s is None else cancel_at_s)
    while cancel_after is None or len(record.arrivals_s) < cancel_after:
        future = stream.next()
        await asyncio.wait({future}, timeout=max(0.0, until_s - time.monotonic()))  # the call is never cancelled
        if not future.done():
            record.outcome = "failed" if cancel_at_s is None else "cancelled"
            break
        if (response := future.result()) is None or record.add(*response):
            stream.complete()
            break
        until_s = until_s if cancel_at_s is not None else time.monotonic() + SILENCE_S
    else:
        record.outcome = "cancelled"
    cancelled_s = time.monotonic()
    await stream.cancel()
    if record.outcome == "cancelled":
        record.freed_s = time.monotonic() - cancelled_s
    return record
