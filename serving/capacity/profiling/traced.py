"""A body for Triton that serves as the one for its task does, and notes meanwhile when what happens.

Its clock is the machine's monotonic one, which every process reads alike.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar

from serving.capacity.simulated_model import shape_of
from serving.engine.request import Request, Sink
from serving.runtime.base import Array, Buffer

TRACE = "trace.json"
MODEL_PY = """from {body} import TritonPythonModel as Body
from serving.capacity.profiling.traced import TracedModel


class TritonPythonModel(TracedModel):
    body = Body
"""


@dataclass(frozen=True, slots=True)
class Trace:
    """What happened, in the order in which it did.

    Attributes:
        runs: ``[begin, graph, rows, width, attended]`` of each run of a graph; the width of an encoder's is
            the length of its sources.
        steps: ``[begin, end]`` of each step of the engine that did anything.
        lined: ``[request, time]``, when it stood in line.
        said: ``[request, time]``, when the engine had a piece of its answer.
        sent: ``[request, begin, end]`` of each response.
    """

    runs: list[Any] = field(default_factory=list)
    steps: list[Any] = field(default_factory=list)
    lined: list[Any] = field(default_factory=list)
    said: list[Any] = field(default_factory=list)
    sent: list[Any] = field(default_factory=list)


class TracedModel:
    """What Triton calls; it writes the trace into the model's folder when the server ends.

    Attributes:
        body: that it is in truth.
    """

    body: ClassVar[Any]

    def initialize(self, args: dict[str, str]) -> None:
        """Initialise the body, and have its engine tell when it does what."""
        self._path = Path(args["model_repository"]) / TRACE
        self._trace, self._current = Trace(), ""
        self._body = type(self).body()
        self._body.initialize(args)
        model = self._body._model
        for name in ("decoder", "encoder"):
            if name in model.runners:
                _replace(model.runners[name], "run", partial(self._run, name))
        _replace(model.engine, "step", self._step)
        _replace(model.engine, "submit", self._submit)

    def execute(self, requests: list[Any]) -> None:
        """Hand requests to the body."""
        self._body.execute([_Request(request, self) for request in requests])

    def finalize(self) -> None:
        """Finalise the body, and write the trace."""
        self._body.finalize()
        self._path.write_text(json.dumps(asdict(self._trace)), encoding="utf-8")

    def begin(self, request_id: str) -> None:
        """Note whose turn in ``execute`` it is."""
        self._current = request_id

    def send(self, request_id: str, send: Callable[..., None], *words: Any, **named: Any) -> None:
        """Send a response."""
        began_s = monotonic()
        send(*words, **named)
        self._trace.sent.append((request_id, began_s, monotonic()))

    def _run(self, name: str, run: Callable[..., Any], feeds: Mapping[str, Array | Buffer]) -> Any:
        self._trace.runs.append((monotonic(), name, *(shape_of(feeds) if name == "decoder" else _longest(feeds))))
        return run(feeds)

    def _step(self, step: Callable[[], bool]) -> bool:
        began_s = monotonic()
        worked = step()
        if worked:
            self._trace.steps.append((began_s, monotonic()))
        return worked

    def _submit(self, submit: Callable[[Request, Sink], Any], request: Request, sink: Sink) -> Any:
        request_id = self._current

        def said(piece: Any) -> None:
            self._trace.said.append((request_id, monotonic()))
            sink(piece)

        submitted = submit(request, said)
        self._trace.lined.append((request_id, monotonic()))
        return submitted


class _Request:
    def __init__(self, request: Any, model: TracedModel) -> None:
        self._request, self._model = request, model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._request, name)

    def get_response_sender(self) -> Any:
        request_id = self._request.request_id()
        self._model.begin(request_id)
        return _Sender(self._request.get_response_sender(), request_id, self._model)


class _Sender:
    def __init__(self, sender: Any, request_id: str, model: TracedModel) -> None:
        self._sender, self._id, self._model = sender, request_id, model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sender, name)

    def send(self, *words: Any, **named: Any) -> None:
        self._model.send(self._id, self._sender.send, *words, **named)


def _replace(owner: Any, name: str, by: Callable[..., Any]) -> None:
    setattr(owner, name, partial(by, getattr(owner, name)))


def _longest(feeds: Mapping[str, Array | Buffer]) -> tuple[int, int, int]:
    shapes = [array.shape for array in feeds.values() if hasattr(array, "shape")]
    return shapes[0][0], (shapes[0][1] if len(shapes[0]) == 2 else 1), 1
