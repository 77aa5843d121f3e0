"""Triton's body of every generative model: decoupled, so that each token leaves as it comes.

``execute`` checks a request and queues it; one thread decodes for all, another sends: outputs that come while a
response is sent leave as one. Every request ends with one FINAL flag.
"""

import logging
import queue
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import numpy as np

from attendant.errors import AttendantError, CancelledError
from attendant.sampling_tensors import Tensors, params_from_tensors, prompt_from_tensors
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
    STREAM,
    TEXT_OUTPUT,
    TOKEN_TEXTS,
    TOP_IDS,
    TOP_LOG_PROBS,
)
from attendant.tokenizer import RenderedText
from serving.engine.engine import EngineThread
from serving.engine.output.alignment import source_texts
from serving.engine.output_processor import merge_outputs
from serving.engine.request import Request
from serving.engine.request_output import RequestOutput
from serving.engine.text_generation_model import TextGenerationModel
from serving.runtime.base import Array
from serving.triton.backends import triton_api
from serving.triton.backends.engine_metrics import EngineMetrics

TICK_S = 0.25
"""How often, at the least, requests are aborted whose clients are gone, and metrics brought up to date."""
# tritonserver 2.51 dies now and then if a request whose call was cancelled ends at once (docs/log.md).
AFTER_CANCELLATION_S = 0.02


class StreamingBody:
    """What Triton calls; one instance a stub process. A task's own class names the model that it loads."""

    load: type[TextGenerationModel]

    def initialize(self, args: dict[str, str]) -> None:
        """Load tokenizer and graphs, allocate the KV cache, and start the two threads."""
        settings = triton_api.engine_settings(args)
        self._model = type(self).load(*triton_api.load_artefact(args), settings=settings)
        engine = self._model.engine
        logging.getLogger(__name__).info("%d rows, a cache of %d bytes", settings.max_num_seqs, engine.cache_bytes)
        self._metrics = EngineMetrics(engine, args["model_name"])
        self._requests: dict[Any, Request] = {}  # Triton's response sender → what it has to answer
        self._sender = ResponseSender(on_end=self._forget, on_tick=self._tick)
        self._thread = EngineThread(engine)

    def execute(self, requests: list[Any]) -> None:
        """Check each request and queue it; a bad one, or one too many, is answered at once."""
        for request in requests:
            sender = request.get_response_sender()
            try:
                self._accept(request, sender)
            except Exception as error:
                sender.send(triton_api.error_response(error), flags=triton_api.FINAL)

    def read_input(self, tensors: Tensors) -> Any:
        """The text of a request, or its tokens."""
        return prompt_from_tensors(tensors, self._model.max_input_tokens, self._model.max_input_characters)

    def finalize(self) -> None:
        """Answer what is queued, then stop the threads."""
        self._thread.stop()
        self._sender.stop()

    def _accept(self, request: Any, sender: Any) -> None:
        if (asked_key := triton_api.health_request(request)) is not None:
            known = asked_key in {running.cancel_key for running in list(self._requests.values())}
            sender.send(triton_api.health_response(self._thread.health(known)), flags=triton_api.FINAL)
            return
        if key := triton_api.cancelled_key(request):
            for running in list(self._requests.values()):
                if secrets.compare_digest(running.cancel_key.encode(), key.encode()):
                    self._cancel(running)
            sender.send(flags=triton_api.FINAL)
            return
        cancel_key = triton_api.cancel_key(request)
        tensors = triton_api.tensors_of(request)
        options = params_from_tensors(tensors, triton_api.asks_to_explain(request))
        text = self.read_input(tensors)
        if isinstance(text, str) and triton_api.is_rendered(request):
            text = RenderedText(text)
        checked = self._model.request(text, options)
        checked.cancel_key = cancel_key
        checked.stream = STREAM in tensors and bool(tensors[STREAM].all())
        if options.explain:
            checked.source_texts = source_texts(checked.source, self._model.tokenizer)
        self._requests[sender] = checked
        try:
            self._model.engine.submit(checked, partial(self._sender.send, sender))
        except Exception:
            self._forget(sender)
            raise

    def _forget(self, sender: Any) -> None:
        self._requests.pop(sender, None)

    def _cancel(self, request: Request) -> None:
        request.cancel()
        self._model.engine.wake()

    def _tick(self) -> None:
        for sender, request in list(self._requests.items()):
            if not request.is_cancelled and sender.is_cancelled():
                self._cancel(request)
        self._metrics.update()


class ResponseSender:
    """Outputs of an engine → Triton's responses, from a thread of its own."""

    def __init__(self, on_end: Callable[[Any], None], on_tick: Callable[[], None]) -> None:
        """Start the thread.

        Args:
            on_end: is called with a sender of Triton once it has sent the last response.
            on_tick: is called about every :data:`TICK_S`.
        """
        self._outputs: queue.SimpleQueue[tuple[Any, RequestOutput | AttendantError] | None] = queue.SimpleQueue()
        self._on_end, self._on_tick = on_end, on_tick
        self._ticked_s = 0.0
        self._thread = threading.Thread(target=self._work, name="answer")
        self._thread.start()

    def send(self, sender: Any, output: RequestOutput | AttendantError) -> None:
        """Send a part of an answer, or the error that ends it; from one thread for each sender of Triton."""
        self._outputs.put((sender, output))

    def stop(self) -> None:
        self._outputs.put(None)
        self._thread.join()

    def _work(self) -> None:
        stopping = False
        while not stopping:
            waiting: dict[Any, list[RequestOutput | AttendantError]] = {}
            with suppress(queue.Empty):
                item = self._outputs.get(timeout=TICK_S)
                while True:
                    if item is None:
                        stopping = True
                    else:
                        waiting.setdefault(item[0], []).append(item[1])
                    item = self._outputs.get_nowait()
            for sender, outputs in waiting.items():
                with _log_errors():
                    self._respond(sender, outputs)
            if time.monotonic() - self._ticked_s > TICK_S:
                with _log_errors():
                    self._on_tick()
                self._ticked_s = time.monotonic()

    def _respond(self, sender: Any, outputs: list[RequestOutput | AttendantError]) -> None:
        by_candidate: dict[int, list[RequestOutput]] = {}
        is_last = False
        for output in outputs:
            if isinstance(output, AttendantError):
                self._respond_with_error(sender, output)
                return
            by_candidate.setdefault(output.candidate, []).append(output)
            is_last = output.is_last
        for number, parts in enumerate(by_candidate.values(), start=1):
            final = is_last and number == len(by_candidate)
            sender.send(create_response(merge_outputs(parts)), flags=triton_api.FINAL if final else 0)
        if is_last:
            self._on_end(sender)

    def _respond_with_error(self, sender: Any, error: AttendantError) -> None:
        if isinstance(error, CancelledError) and sender.is_cancelled():  # nobody reads, and Triton takes no error
            threading.Timer(AFTER_CANCELLATION_S, sender.send, kwargs={"flags": triton_api.FINAL}).start()
        else:
            sender.send(triton_api.error_response(error), flags=triton_api.FINAL)
        self._on_end(sender)


@contextmanager
def _log_errors() -> Iterator[None]:
    try:
        yield
    except Exception:  # one request's, or the metrics': the other answers must still leave
        logging.exception("an answer could not be sent")


def create_response(output: RequestOutput) -> Any:
    """A part of an answer as Triton's response; T tokens, K most probable tokens of each."""
    tensors: dict[str, Array] = {
        TEXT_OUTPUT: np.array([output.text.encode()], dtype=object),
        FINISH_REASON: np.array([output.finish_reason.encode()], dtype=object),
        OUTPUT_IDS: np.array(output.token_ids, dtype=np.int32),
        CANDIDATE: np.array([output.candidate], dtype=np.int32),
    }
    if output.score is not None:
        tensors[SCORE] = np.array([output.score], dtype=np.float32)
    if output.logprobs:
        tensors[LOG_PROBS] = np.array(output.logprobs, dtype=np.float32)
    if output.top_logprobs:
        tensors[TOP_IDS] = np.array([[token for token, _ in top] for top in output.top_logprobs], dtype=np.int32)
        tensors[TOP_LOG_PROBS] = np.array([[value for _, value in top] for top in output.top_logprobs], np.float32)
    if output.alignment is not None:
        tensors[ALIGNMENT] = np.ascontiguousarray(output.alignment)
        tensors[TOKEN_TEXTS] = _strings(output.token_texts)
    if output.source_texts:
        tensors[SOURCE_TEXTS] = _strings(output.source_texts)
    if output.input_tokens is not None:
        tensors[INPUT_TOKENS] = np.array([output.input_tokens], dtype=np.int32)
        tensors[OUTPUT_TOKENS] = np.array([len(output.token_ids)], dtype=np.int32)
    return triton_api.response({name: array[None] for name, array in tensors.items()})


def _strings(texts: tuple[str, ...]) -> Array:
    return np.array([text.encode() for text in texts], dtype=object)
