"""Triton's body of every generative model: decoupled, so that each token leaves as it comes.

``execute`` reads a request and hands it to the engine's process; one thread sends what comes from there, and outputs
that come while a response is sent leave as one. Every request ends with one FINAL flag.
"""

import secrets
import threading
import time
from collections.abc import Collection
from functools import partial
from typing import Any

import numpy as np

from attendant.errors import AttendantError
from attendant.sampling_tensors import params_from_tensors
from attendant.tensor_names import (
    ALIGNMENT,
    CACHED_TOKENS,
    CANDIDATE,
    FINISH_REASON,
    INPUT_TOKENS,
    LOG_PROBS,
    OUTPUT_IDS,
    OUTPUT_TOKENS,
    PROMPT_TOKENS,
    SCORE,
    SOURCE_TEXTS,
    STREAM,
    TEXT_OFFSETS,
    TEXT_OUTPUT,
    TOKEN_BYTES,
    TOKEN_TEXTS,
    TOP_BYTES,
    TOP_IDS,
    TOP_LOG_PROBS,
)
from serving.engine.engine_client import EngineClient
from serving.engine.engine_process import load_verified
from serving.engine.output_processor import merge_outputs
from serving.engine.request_output import RequestOutput
from serving.engine.text_generation_model import TextGenerationModel
from serving.runtime.base import Array
from serving.triton.backends import triton_api
from serving.triton.backends.engine_metrics import EngineMetrics
from serving.triton.backends.given_up import ends_if_given_up, stay_if_it_ends

# tritonserver 2.51 dies now and then if a request whose call was cancelled ends at once (docs/log.md).
AFTER_CANCELLATION_S = 0.02
# A request and the one that cancels it come on streams of their own, so that the second may be there first.
EARLY_S = 5.0
MOST_EARLY = 1024


class StreamingBody:
    """What Triton calls; one instance a stub process. A task's own class names the model that the engine loads."""

    load: type[TextGenerationModel]

    def initialize(self, args: dict[str, str]) -> None:
        """Start the engine's process, which loads tokenizer and graphs and allocates the KV cache."""
        settings = triton_api.engine_settings(args)
        load = partial(load_verified, type(self).load, *triton_api.find_artefact(args), settings=settings)
        self._declared = triton_api.declared_outputs(args)
        self._cancel_keys: dict[Any, str] = {}  # of what is to be answered: Triton's response sender → its secret
        self._early: dict[str, float] = {}  # the secret of what was cancelled, and was not there → when that was
        self._metrics: EngineMetrics | None = None
        most_requests = 2 * (settings.max_queue_size + settings.max_num_seqs)  # the engine refuses, and counts, before
        self._engine = EngineClient(load, most_requests, self._respond, self._tick)
        self._metrics = EngineMetrics(self._engine.ready, args["model_name"])

    @ends_if_given_up
    def execute(self, requests: list[Any]) -> None:
        """Hand each request over; one that cannot be read, or one too many, is answered at once."""
        for request in requests:
            sender = request.get_response_sender()
            try:
                self._accept(request, sender)
            except Exception as error:
                sender.send(triton_api.error_response(error), flags=triton_api.FINAL)

    def finalize(self) -> None:
        """Answer what is queued, then end the engine."""
        self._engine.stop()

    def _accept(self, request: Any, sender: Any) -> None:
        if (asked_keys := triton_api.health_request(request)) is not None:
            known = set(self._cancel_keys.values())
            health = self._engine.health(tuple(key for key in asked_keys if key not in known))
            sender.send(triton_api.health_response(health), flags=triton_api.FINAL)
            return
        if key := triton_api.cancelled_key(request):
            if not self._cancel(key) and len(key) <= triton_api.LONGEST_KEY:
                self._early[key] = time.monotonic()
                if len(self._early) > MOST_EARLY:
                    del self._early[next(iter(self._early))]
            sender.send(flags=triton_api.FINAL)
            return
        cancel_key, rendered = triton_api.cancel_key(request), triton_api.is_rendered(request)
        tensors, ready = triton_api.tensors_of(request), self._engine.ready
        options = params_from_tensors(tensors, triton_api.asks_to_explain(request))
        subject = self.load.read_input(tensors, ready.max_input_tokens, ready.max_input_characters)
        stream = STREAM in tensors and bool(tensors[STREAM].all())
        self._cancel_keys[sender] = cancel_key
        try:
            self._engine.submit(sender, subject, options, stream=stream, rendered=rendered)
        except Exception:
            del self._cancel_keys[sender]
            raise
        if time.monotonic() - self._early.pop(cancel_key, -EARLY_S) < EARLY_S:
            self._engine.cancel(sender)

    def _cancel(self, key: str) -> bool:
        running = list(self._cancel_keys.items())
        found = [sender for sender, own in running if secrets.compare_digest(own.encode(), key.encode())]
        for sender in found:
            self._engine.cancel(sender)
        return bool(found)

    def _tick(self) -> None:
        stay_if_it_ends()
        for sender in list(self._cancel_keys):
            if sender.is_cancelled():
                self._engine.cancel(sender)
        if self._metrics is not None:
            self._metrics.update(self._engine.meter, self._engine.starts)

    def _respond(self, sender: Any, outputs: list[RequestOutput | AttendantError]) -> None:
        stay_if_it_ends()
        by_candidate: dict[int, list[RequestOutput]] = {}
        is_last = False
        for output in outputs:
            if isinstance(output, AttendantError):
                self._respond_with_error(sender, output)
                return
            by_candidate.setdefault(output.candidate, []).append(output)
            is_last = output.is_last
        for number, parts in enumerate(by_candidate.values(), start=1):
            final = is_last and number == len(by_candidate) and not sender.is_cancelled()
            sender.send(create_response(merge_outputs(parts), self._declared), flags=triton_api.FINAL if final else 0)
        if is_last and not final:
            threading.Timer(AFTER_CANCELLATION_S, sender.send, kwargs={"flags": triton_api.FINAL}).start()
        if is_last:
            self._cancel_keys.pop(sender, None)

    def _respond_with_error(self, sender: Any, error: AttendantError) -> None:
        if sender.is_cancelled():  # nobody reads, and Triton takes no error
            threading.Timer(AFTER_CANCELLATION_S, sender.send, kwargs={"flags": triton_api.FINAL}).start()
        else:
            sender.send(triton_api.error_response(error), flags=triton_api.FINAL)
        self._cancel_keys.pop(sender, None)


def create_response(output: RequestOutput, declared: Collection[str]) -> Any:
    """A part of an answer as Triton's response; T tokens, K most probable tokens of each.

    Args:
        output: the part.
        declared: outputs of ``config.pbtxt``: a repository that was laid out before may lack one.
    """
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
    if output.token_bytes:
        tensors[TOKEN_BYTES] = np.array(output.token_bytes, dtype=object)
    if output.top_bytes:
        tensors[TOP_BYTES] = np.array(output.top_bytes, dtype=object)
    if output.text_offsets:
        tensors[TEXT_OFFSETS] = np.array(output.text_offsets, dtype=np.int32)
    if output.prompt_tokens:
        tensors[PROMPT_TOKENS] = np.array([output.prompt_tokens], dtype=np.int32)
    if output.alignment is not None:
        tensors[ALIGNMENT] = np.ascontiguousarray(output.alignment)
        tensors[TOKEN_TEXTS] = _strings(output.token_texts)
    if output.source_texts:
        tensors[SOURCE_TEXTS] = _strings(output.source_texts)
    if output.input_tokens is not None:
        tensors[INPUT_TOKENS] = np.array([output.input_tokens], dtype=np.int32)
        tensors[OUTPUT_TOKENS] = np.array([len(output.token_ids) - output.prompt_tokens], dtype=np.int32)
    if output.cached_tokens is not None:
        tensors[CACHED_TOKENS] = np.array([output.cached_tokens], dtype=np.int32)
    return triton_api.response({name: array[None] for name, array in tensors.items() if name in declared})


def _strings(texts: tuple[str, ...]) -> Array:
    return np.array([text.encode() for text in texts], dtype=object)
