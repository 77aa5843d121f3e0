"""The process that decodes for a model: requests come and outputs leave over a socket.

Triton's stub holds the other end (:mod:`serving.engine.engine_client`): whatever ends or stops this process, the stub
lives, ends the requests that were here with an error, and starts another. Outputs of a step leave as one message.
"""

import logging
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from attendant.errors import AttendantError, BusyError, CancelledError, MachineError
from attendant.manifest import Manifest
from attendant.sampling_params import SamplingParams, Structure
from attendant.tokenizer import RenderedText
from serving.engine.meter import Meter
from serving.engine.output.alignment import source_texts
from serving.engine.request import Request
from serving.engine.request_output import RequestOutput
from serving.engine.text_generation_model import TextGenerationModel
from serving.processes import connection_of, receive, send

MOST_UNTRIED = 64
"""Guides that wait to be tried out: a usual one for 20 ms, the dearest for half a second of a processor."""
REPORT_S = 0.25
"""How often, at the least, an engine that can says that it lives."""
QUIET_S = 10.0
"""Without a request that has a guide, after which none is kept for the next."""
Load = Callable[[], TextGenerationModel]
Output = tuple[int, RequestOutput | AttendantError]
"""A part of the answer to the request of that number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request as it came.

    Attributes:
        number: that its outputs carry.
        subject: a text, tokens or an image.
        options: how it is decoded.
        stream: whether outputs are to come one by one.
        rendered: whether its text was made by a chat template.
    """

    number: int
    subject: Any
    options: SamplingParams
    stream: bool = True
    rendered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """A request that is to end."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """What an engine says once it is loaded.

    Attributes:
        slots: how many sequences it decodes at once.
        cache_bytes: of all slots together.
        max_input_tokens: how many tokens of text a request may bring.
        max_input_characters: how many characters such a text may have.
    """

    slots: int
    cache_bytes: int
    max_input_tokens: int
    max_input_characters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What an engine says several times a second.

    Attributes:
        meter: what happened so far.
        steps: that it has made.
    """

    meter: Meter
    steps: int


def load_verified(
    kind: type[TextGenerationModel], folder: Path, manifest: Manifest, *arguments: Any, **named: Any
) -> TextGenerationModel:
    """Load a model whose files are what its manifest says, at each start of an engine.

    Raises:
        ArtefactError: one is missing or not what the manifest says, or another artefact takes their place meanwhile.
    """
    with manifest.lasting(folder):
        return kind(folder, manifest, *arguments, **named)


def serve_engine(descriptor: int) -> None:
    """Load the model that the first message says, and decode until the other end is closed or asks for the end.

    Args:
        descriptor: of the socket.
    """
    connection = connection_of(descriptor)
    load: Load = receive(connection)
    with suppress(ImportError):  # an image that holds TensorRT alone has no ONNX Runtime
        from serving.runtime.ort.runner import share_threads

        share_threads()
    try:
        model = load()
    except Exception as error:
        logging.exception("the engine cannot be loaded")
        send(connection, _known(error))
        return
    send(
        connection,
        Ready(
            slots=model.engine.slots,
            cache_bytes=model.engine.cache_bytes,
            max_input_tokens=model.max_input_tokens,
            max_input_characters=model.max_input_characters,
        ),
    )
    EngineLoop(model, connection).run()


class EngineLoop:
    """Steps an engine in the calling thread; another reads what comes, and a third requests with a guide.

    To try a guide takes up to half a second: requests without one, or with one that is known, do not wait for that.
    """

    def __init__(self, model: TextGenerationModel, connection: Connection) -> None:
        self._model, self._engine, self._connection = model, model.engine, connection
        self._requests: dict[int, Request] = {}
        self._guided = queue.SimpleQueue[Ask | None]()
        self._unread: dict[int, Structure] = {}  # of those
        self._cancelled = set[int]()  # likewise
        self._outputs: deque[Output] = deque()
        self._sending = threading.Lock()
        self._stopping = False
        self._steps, self._reported_s, self._guided_s = 0, 0.0, 0.0

    def run(self) -> None:
        """Decode until the other end wants no more; what is queued then is answered first."""
        threading.Thread(target=self._read, name="requests", daemon=True).start()
        threading.Thread(target=self._read_guided, name="guides", daemon=True).start()
        while not (self._stopping and self._engine.is_idle):
            try:
                worked = self._engine.step()
            except Exception:  # a mistake of ours: running requests get an error, and the others go on
                logging.exception("a step of the engine failed")
                self._engine.fail_all()
                worked = True
            self._steps += worked
            self._send()
            if not worked:
                self._engine.wait(REPORT_S)
            if time.monotonic() - self._guided_s > QUIET_S:
                self._model.loaded.guides.forget()
                self._guided_s = time.monotonic()  # one that waits may have another compiled

    def _read(self) -> None:
        try:
            while (message := receive(self._connection)) is not None:
                if isinstance(message, Cancel):
                    self._cancel(message.number)
                else:
                    self._take(message)
        except (EOFError, OSError):
            os._exit(0)  # nobody is left who would read an answer
        except BaseException:  # a mistake of ours: who holds the other end starts another process
            logging.exception("a message could not be read")
            os._exit(1)
        self._guided.put(None)

    def _take(self, ask: Ask) -> None:
        guide = ask.options.structure
        if guide is not None:
            self._guided_s = time.monotonic()
        if guide is None or (_known_guide := self._model.loaded.guides.known(guide)):  # held, so that it stays known
            self._accept(ask)
            return
        untried = set(list(self._unread.values()))  # noqa: C414  (the list is made at once, beside the other thread)
        if guide not in untried and len(untried) >= MOST_UNTRIED:
            message = f"{MOST_UNTRIED} guides wait to be tried out; retry later"
            self._refuse(ask, BusyError("fewer guides that are new", str(MOST_UNTRIED), "retry later", message=message))
            return
        self._unread[ask.number] = guide
        self._guided.put(ask)

    def _read_guided(self) -> None:
        while (ask := self._guided.get()) is not None:
            self._accept(ask)
        self._stopping = True
        self._engine.wake()

    def _cancel(self, number: int) -> None:
        if number in self._unread:  # first: it may be read meanwhile
            self._cancelled.add(number)
        if (request := self._requests.get(number)) is not None:
            request.cancel()
            self._engine.wake()

    def _accept(self, ask: Ask) -> None:
        try:
            if ask.number in self._cancelled:  # before it is read: a guide takes long
                raise CancelledError("an answer", "cancelled", "send it again", message="request cancelled")
            request = read_request(self._model, ask)
            self._requests[ask.number] = request
            if ask.number in self._cancelled:
                request.cancel()
            self._engine.submit(request, partial(self._emit, ask.number))
            if request.needs_no_run:
                self._send()
        except BaseException as error:  # a library in Rust panics with one that is no Exception
            if not isinstance(error, AttendantError):
                logging.exception("a request could not be read")
            self._refuse(ask, _known(error))
        finally:
            self._unread.pop(ask.number, None)
            self._cancelled.discard(ask.number)

    def _refuse(self, ask: Ask, error: AttendantError) -> None:
        self._emit(ask.number, error)
        self._send()

    def _emit(self, number: int, output: RequestOutput | AttendantError) -> None:
        self._outputs.append((number, output))
        if isinstance(output, AttendantError) or output.is_last:
            self._requests.pop(number, None)

    def _send(self) -> None:
        with self._sending:
            outputs = [self._outputs.popleft() for _ in range(len(self._outputs))]
            if outputs:
                send(self._connection, outputs)
            if time.monotonic() - self._reported_s > REPORT_S:
                send(self._connection, Report(meter=self._engine.meter, steps=self._steps))
                self._reported_s = time.monotonic()


def read_request(model: TextGenerationModel, ask: Ask) -> Request:
    """Check a request.

    Raises:
        InputError: its text or an option is none that the model can take.
    """
    subject = RenderedText(ask.subject) if ask.rendered and isinstance(ask.subject, str) else ask.subject
    request = model.request(subject, ask.options)
    request.stream = ask.stream
    if ask.options.explain:
        request.source_texts = source_texts(request.shown_tokens, model.tokenizer)
    return request


def _known(error: BaseException) -> AttendantError:
    if isinstance(error, AttendantError):
        return error
    return MachineError("an engine that works", repr(error)[:1000], "see the server's log")
