"""Triton's body of every model that answers with text: decoupled, so that each token leaves as it comes.

``execute`` checks and hands over; one thread decodes for all, another sends. Every request ends with one FINAL flag.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from attendant.sampling_tensors import Tensors, params_from_tensors, prompt_from_tensors
from attendant.tensor_names import STREAM
from attendant.tokenizer import RenderedText
from serving.engine.engine_thread import EngineThread
from serving.engine.output.alignment import source_texts
from serving.engine.text_generation_model import TextGenerationModel
from serving.triton.backends import triton_api
from serving.triton.backends.engine_metrics import EngineMetrics
from serving.triton.backends.response_sender import Job, ResponseSender


class StreamingModel:
    """What Triton calls; one instance a stub process. A task's own class says how its artefacts are loaded."""

    load: type[TextGenerationModel]

    def initialize(self, args: dict[str, str]) -> None:
        """Load tokenizer and graphs, allocate the slots, and start the two threads."""
        settings = triton_api.engine_settings(args)
        self._model = type(self).load(*triton_api.load_artefact(args), settings=settings)
        engine = self._model.engine
        logging.getLogger(__name__).info("%d slots, a cache of %d bytes", settings.max_num_seqs, engine.cache_bytes)
        self._metrics = EngineMetrics(engine, args["model_name"])
        self._unanswered: set[Job] = set()
        self._answering = ResponseSender(self._forget, self._tick)
        self._thread = EngineThread(engine)

    def execute(self, requests: list[Any]) -> None:
        """Check each request and hand it over; a bad one, or one too many, is answered at once."""
        for request in requests:
            sender = request.get_response_sender()
            try:
                self._accept(request, sender)
            except Exception as error:
                sender.send(triton_api.error_response(error), flags=triton_api.FINAL)

    def subject(self, tensors: Tensors) -> Any:
        """What a request asks: its text, or the tokens of one."""
        return prompt_from_tensors(tensors)

    def finalize(self) -> None:
        """Answer who waits, then stop the threads."""
        self._thread.stop()
        self._answering.stop()

    def _accept(self, request: Any, sender: Any) -> None:
        unwanted = triton_api.takes_back(request)
        if unwanted:
            for job in [job for job in list(self._unanswered) if job.id == unwanted and job.request is not None]:
                job.taken_back = True
                self._cancel(job)
            sender.send(flags=triton_api.FINAL)
            return
        tensors = triton_api.tensors_of(request)
        options = params_from_tensors(tensors, triton_api.asks_to_explain(request))
        subject = self.subject(tensors)
        if isinstance(subject, str) and triton_api.is_rendered(request):
            subject = RenderedText(subject)
        checked = self._model.request(subject, options)
        job = Job(
            id=request.request_id(),
            sender=sender,
            stream=STREAM in tensors and bool(tensors[STREAM].all()),
            input_tokens=checked.input_tokens if options.token_counts else None,
            source_texts=source_texts(checked.source, self._model.tokenizer) if options.explain else (),
        )
        self._unanswered.add(job)
        try:
            job.request = self._model.engine.submit(checked, partial(self._answering.say, job))
        except Exception:
            self._forget(job)
            raise

    def _forget(self, job: Job) -> None:
        self._unanswered.discard(job)

    def _cancel(self, job: Job) -> None:
        if job.request is not None:
            job.request.cancel()
            self._model.engine.wake()

    def _tick(self) -> None:
        for job in list(self._unanswered):
            if job.request is not None and not job.request.is_cancelled and job.sender.is_cancelled():
                self._cancel(job)
        self._metrics.tell()
