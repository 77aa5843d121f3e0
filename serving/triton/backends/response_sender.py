"""Pieces of answers → Triton's responses, from a thread of its own: while one is sent, the next ones gather into one.

Legend: T tokens, K most probable tokens of each.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from attendant.errors import AttendantError, CancelledError
from attendant.tensor_names import (
    ALIGNMENT,
    CANDIDATE,
    FINISH_REASON,
    INPUT_TOKENS,
    LOG_PROBS,
    OUTPUT_IDS,
    OUTPUT_TOKENS,
    SCORE,
    SOURCE_TEXTS,
    TEXT_OUTPUT,
    TOKEN_TEXTS,
    TOP_IDS,
    TOP_LOG_PROBS,
)
from serving.engine.request import Request
from serving.engine.request_output import RequestOutput
from serving.runtime.base import Array
from serving.triton.backends import triton_api

TICK_S = 0.25
"""How often clients that have gone are looked for, and metrics are told, at the least."""
# tritonserver 2.51 dies now and then if a request whose call was cancelled ends at once (docs/log.md).
AFTER_CANCELLATION_S = 0.02


@dataclass(slots=True, eq=False)
class Job:
    """A request and the way to answer it.

    Attributes:
        id: by which its client may take it back.
        sender: of Triton.
        stream: whether pieces are sent as they come, or each answer whole.
        input_tokens: of the question, if the client wants to know; so of the answer.
        source_texts: what an alignment's positions stand for; sent once, with the first response.
        taken_back: by a second request, not by the end of its call.
        held: of an answer that is sent whole, candidate → its pieces so far; only for the thread that says them.
    """

    id: str
    sender: Any
    stream: bool
    input_tokens: int | None = None
    request: Request | None = None
    source_texts: tuple[str, ...] = ()
    taken_back: bool = False
    held: dict[int, list[RequestOutput]] = field(default_factory=dict)


class ResponseSender:
    """Sends what an engine says."""

    def __init__(self, forget: Callable[[Job], None], tick: Callable[[], None]) -> None:
        """Start the thread.

        Args:
            forget: is called once a request has got its last response.
            tick: is called about every :data:`TICK_S`.
        """
        self._said: queue.SimpleQueue[tuple[Job, RequestOutput | AttendantError] | None] = queue.SimpleQueue()
        self._forget, self._tick = forget, tick
        self._ticked_s = 0.0
        self._thread = threading.Thread(target=self._work, name="answer")
        self._thread.start()

    def say(self, job: Job, piece: RequestOutput | AttendantError) -> None:
        """Send a piece of an answer, or the error that ends it; from one thread for each job."""
        if job.stream or isinstance(piece, AttendantError):
            self._said.put((job, piece))
            return
        held = job.held.setdefault(piece.candidate, [])
        held.append(piece)
        if piece.finish_reason:  # not before: to wake the other thread for nothing holds up this one
            self._said.put((job, joined(job.held.pop(piece.candidate))))

    def stop(self) -> None:
        """Send everything, then end."""
        self._said.put(None)
        self._thread.join()

    def _work(self) -> None:
        stopping = False
        while not stopping:
            jobs: dict[Job, list[RequestOutput | AttendantError]] = {}
            items: list[tuple[Job, RequestOutput | AttendantError] | None] = []
            with suppress(queue.Empty):
                items.append(self._said.get(timeout=TICK_S))
                while True:
                    items.append(self._said.get_nowait())
            for item in items:
                if item is None:
                    stopping = True
                else:
                    jobs.setdefault(item[0], []).append(item[1])
            for job, pieces in jobs.items():
                self._guarded(partial(self._answer, job, pieces))
            if time.monotonic() - self._ticked_s > TICK_S:
                self._guarded(self._tick)
                self._ticked_s = time.monotonic()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception:  # one request's, or the metrics': the other answers must still leave
            logging.exception("an answer could not be sent")

    def _answer(self, job: Job, pieces: list[RequestOutput | AttendantError]) -> None:
        said: dict[int, list[RequestOutput]] = {}
        for piece in pieces:
            if isinstance(piece, AttendantError):
                if not isinstance(piece, CancelledError):
                    job.sender.send(triton_api.error_response(piece), flags=triton_api.FINAL)
                elif job.taken_back:
                    job.sender.send(flags=triton_api.FINAL)
                else:
                    threading.Timer(AFTER_CANCELLATION_S, job.sender.send, kwargs={"flags": triton_api.FINAL}).start()
                self._forget(job)
                return
            said.setdefault(piece.candidate, []).append(piece)
        last = isinstance(pieces[-1], RequestOutput) and pieces[-1].is_last
        for number, one in enumerate(said.values(), start=1):
            final = last and number == len(said)
            job.sender.send(_response(joined(one), job), flags=triton_api.FINAL if final else 0)
            job.source_texts = ()
        if last:
            self._forget(job)


def joined(said: list[RequestOutput]) -> RequestOutput:
    """Pieces of one answer as one."""
    if len(said) == 1:
        return said[0]
    alignments = [piece.alignment for piece in said if piece.alignment is not None]
    return replace(
        said[-1],
        text="".join(piece.text for piece in said),
        token_ids=tuple(token for piece in said for token in piece.token_ids),
        logprobs=tuple(value for piece in said for value in piece.logprobs),
        top_logprobs=tuple(top for piece in said for top in piece.top_logprobs),
        alignment=np.concatenate(alignments) if alignments else None,
        token_texts=tuple(text for piece in said for text in piece.token_texts),
    )


def _response(piece: RequestOutput, job: Job) -> Any:
    outputs: dict[str, Array] = {
        TEXT_OUTPUT: np.array([piece.text.encode()], dtype=object),
        FINISH_REASON: np.array([piece.finish_reason.encode()], dtype=object),
        OUTPUT_IDS: np.array(piece.token_ids, dtype=np.int32),
        CANDIDATE: np.array([piece.candidate], dtype=np.int32),
    }
    if piece.score is not None:
        outputs[SCORE] = np.array([piece.score], dtype=np.float32)
    if piece.logprobs:
        outputs[LOG_PROBS] = np.array(piece.logprobs, dtype=np.float32)
    if piece.top_logprobs:
        outputs[TOP_IDS] = np.array([[token for token, _ in top] for top in piece.top_logprobs], dtype=np.int32)
        outputs[TOP_LOG_PROBS] = np.array([[value for _, value in top] for top in piece.top_logprobs], dtype=np.float32)
    if piece.alignment is not None:
        outputs[ALIGNMENT] = np.ascontiguousarray(piece.alignment)
        outputs[TOKEN_TEXTS] = _strings(piece.token_texts)
    if job.source_texts:
        outputs[SOURCE_TEXTS] = _strings(job.source_texts)
    if job.input_tokens is not None:
        outputs[INPUT_TOKENS] = np.array([job.input_tokens], dtype=np.int32)
        outputs[OUTPUT_TOKENS] = np.array([len(piece.token_ids)], dtype=np.int32)
    return triton_api.response({name: array[None] for name, array in outputs.items()})


def _strings(texts: tuple[str, ...]) -> Array:
    return np.array([text.encode() for text in texts], dtype=object)
