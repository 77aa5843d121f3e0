"""Triton's body of every model that answers with text: decoupled, so that each token leaves as it comes.

``execute`` checks and queues; one thread decodes and sends. Every request ends with one FINAL flag.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from models.errors import InputError
from models.manifest import Manifest
from models.tensor_names import ALIGNMENT, FINISH_REASON, MAX_TOKENS, OUTPUT_IDS, STREAM, TEXT_INPUT, TEXT_OUTPUT
from serving.backends import triton_api
from serving.generation.answer import Piece, StreamedModel
from serving.parameters import Runtime

WAITING_REQUESTS = 256
# tritonserver 2.51 dies now and then if a request whose call was cancelled ends at once (docs/log.md).
AFTER_CANCELLATION_S = 0.02


@dataclass(frozen=True, slots=True)
class Job:
    """A checked request and the way to answer it; ``taken_back`` once its client has said so."""

    id: str
    request: Any
    stream: bool
    sender: Any
    taken_back: threading.Event = field(default_factory=threading.Event)


class StreamingModel:
    """What Triton calls; one instance a stub process. A task's own class says how its artefacts are loaded."""

    load: Callable[[Path, Manifest, int, Runtime], StreamedModel]

    def initialize(self, args: dict[str, str]) -> None:
        """Load tokenizer and graphs, and start the decoding thread."""
        self._model = type(self).load(*triton_api.load_artefact(args))
        self._jobs: queue.Queue[Job | None] = queue.Queue(WAITING_REQUESTS)
        self._unanswered: dict[str, Job] = {}
        self._thread = threading.Thread(target=self._work, name="decode")
        self._thread.start()

    def execute(self, requests: list[Any]) -> None:
        """Check each request and queue it; a bad one, or one too many, is answered at once."""
        for request in requests:
            sender = request.get_response_sender()
            try:
                self._accept(request, sender)
            except queue.Full:
                message = (
                    f"expected fewer than {WAITING_REQUESTS} waiting requests; found a full queue; try again later"
                )
                sender.send(triton_api.unavailable_response(message), flags=triton_api.FINAL)
            except Exception as error:
                sender.send(triton_api.stream_error_response(error), flags=triton_api.FINAL)

    def subject(self, request: Any) -> Any:
        """What a request asks: its text."""
        return str(_scalar(request, TEXT_INPUT, b"").decode(errors="replace"))

    def finalize(self) -> None:
        """Decode what is queued, then stop the thread."""
        self._jobs.put(None)
        self._thread.join()

    def _accept(self, request: Any, sender: Any) -> None:
        unwanted = triton_api.takes_back(request)
        if unwanted:
            if (job := self._unanswered.get(unwanted)) is not None:
                job.taken_back.set()
            sender.send(flags=triton_api.FINAL)
            return
        job = self._job(request, sender)
        self._unanswered[job.id] = job
        try:
            self._jobs.put_nowait(job)
        except queue.Full:
            self._unanswered.pop(job.id, None)  # another of that id may have been answered
            raise

    def _job(self, request: Any, sender: Any) -> Job:
        max_tokens = _scalar(request, MAX_TOKENS, None)
        limit = None if max_tokens is None else int(max_tokens)
        checked = self._model.request(self.subject(request), limit, triton_api.asks_to_explain(request))
        return Job(request.request_id(), checked, bool(_scalar(request, STREAM, False)), sender)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                self._answer(job)
            except Exception as error:
                job.sender.send(triton_api.stream_error_response(error), flags=triton_api.FINAL)
            self._unanswered.pop(job.id, None)
            del job  # a sender kept alive here would keep its request alive in Triton

    def _answer(self, job: Job) -> None:
        said: list[Piece] = []
        for piece in self._model.stream(job.request):
            if job.taken_back.is_set():
                job.sender.send(flags=triton_api.FINAL)
                return
            if job.sender.is_cancelled():
                threading.Timer(AFTER_CANCELLATION_S, job.sender.send, kwargs={"flags": triton_api.FINAL}).start()
                return
            said.append(piece)
            if piece.finish_reason:
                job.sender.send(_response(piece if job.stream else _joined(said)), flags=triton_api.FINAL)
            elif job.stream:
                job.sender.send(_response(piece))


def _joined(said: list[Piece]) -> Piece:
    alignments = [piece.alignment for piece in said if piece.alignment is not None]
    return Piece(
        text="".join(piece.text for piece in said),
        token_ids=tuple(token for piece in said for token in piece.token_ids),
        finish_reason=said[-1].finish_reason,
        alignment=np.concatenate(alignments) if alignments else None,
    )


def _scalar(request: Any, name: str, default: Any) -> Any:
    array = triton_api.tensor_of(request, name)
    if array is None:
        return default
    if array.size != 1:
        raise InputError(f"one element in {name!r}", str(array.size), "send one request for each text")
    return array.reshape(-1)[0]


def _response(piece: Piece) -> Any:
    texts = {TEXT_OUTPUT: piece.text, FINISH_REASON: piece.finish_reason}
    outputs = {name: np.array([text.encode()], dtype=object) for name, text in texts.items()}
    outputs[OUTPUT_IDS] = np.array(piece.token_ids, dtype=np.int64)
    if piece.alignment is not None:
        outputs[ALIGNMENT] = np.ascontiguousarray(piece.alignment)
    return triton_api.response(outputs)
