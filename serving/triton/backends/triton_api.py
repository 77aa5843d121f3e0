"""The only importer of Triton's Python-backend API, which exists nowhere but inside Triton's stub process."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import triton_python_backend_utils as pb_utils

from attendant.engine_health import EngineHealth
from attendant.errors import (
    BusyError,
    CancelledError,
    ConfigError,
    InputError,
    LoadingError,
    LostError,
    MachineError,
    status_message,
)
from attendant.manifest import Manifest
from attendant.parameters import ARTEFACT, DEVICE, GRAPH_MODEL, MOST_THREADS, RUNTIME, THREADS, Device, Runtime
from attendant.tensor_names import (
    CANCEL,
    CANCEL_KEY,
    EXPLAIN,
    HEALTH,
    HEALTH_SEPARATOR,
    PARSE_SPECIAL,
    RENDERED,
    TEXT_OUTPUT,
)
from serving.engine.settings import EngineSettings
from serving.processes import volunteer_to_end
from serving.runtime.base import Array
from serving.triton.backends.layout_check import require_one_layout

SERVER_S = 1.0
"""Between two looks at whether the server lives."""
SHORTEST_KEY, LONGEST_KEY = 16, 128
FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


Artefact = tuple[Path, Manifest, int, Runtime, Device]


@contextmanager
def loaded_artefact(arguments: dict[str, str]) -> Iterator[Artefact]:
    """The artefact in the version folder that Triton loads, verified file by file, and still there after the block.

    It is for this process to run.

    Args:
        arguments: what Triton hands to ``initialize``.

    Yields:
        As :func:`find_artefact`.

    Raises:
        ArtefactError: a file is missing or not what the manifest says, or was exchanged meanwhile.
        MachineError: as :func:`find_artefact`.
    """
    volunteer_to_end()  # as the engines of other models do: the largest of them all is chosen
    found = find_artefact(arguments)
    with found[1].lasting(found[0]):
        yield found


def find_artefact(arguments: dict[str, str]) -> Artefact:
    """The artefact in the version folder that Triton loads; its files are not looked at.

    Args:
        arguments: what Triton hands to ``initialize``.

    Returns:
        Its folder, its manifest, how many threads one run of a graph may use, and which runtime runs it on
        which device.

    Raises:
        ArtefactError: the manifest is missing or damaged, or came after Triton had read the model's configuration.
        ConfigError: so many threads there cannot be.
        MachineError: NumPy 2 is installed, under which this stub returns empty tensors with status OK.
    """
    require_numpy_1(np.__version__)
    threading.Thread(target=_end_with_server, args=(os.getppid(),), name="server", daemon=True).start()
    folder = Path(arguments["model_repository"]) / arguments["model_version"]
    manifest = Manifest.read(folder)
    parameters = json.loads(arguments["model_config"])["parameters"]
    require_one_layout(folder.parent, manifest, parameters.get(ARTEFACT, {"string_value": ""})["string_value"])
    runtime, device = (parameters.get(key, {"string_value": "auto"})["string_value"] for key in (RUNTIME, DEVICE))
    threads = parameters[THREADS]["string_value"]
    if not (threads.isdecimal() and 1 <= int(threads[:9]) <= MOST_THREADS):
        raise ConfigError(f"from 1 to {MOST_THREADS} threads", repr(threads[:9]), "lay the repository out again")
    return folder, manifest, int(threads), runtime, device


def _end_with_server(server: int) -> None:
    # A stub looks for its server now and then, but not while it waits for a lock that a killed server had taken.
    while os.getppid() == server:
        time.sleep(SERVER_S)
    os.kill(os.getpid(), signal.SIGKILL)


def graph_model(arguments: dict[str, str]) -> str:
    """The model that runs the graph of a body; empty where it runs it itself.

    Args:
        arguments: what Triton hands to ``initialize``.
    """
    parameters = json.loads(arguments["model_config"])["parameters"]
    return str(parameters.get(GRAPH_MODEL, {"string_value": ""})["string_value"])


def call_model(name: str, inputs: Mapping[str, Array], requested: Collection[str]) -> dict[str, Array]:
    """Call another model of this server.

    Args:
        name: of the model.
        inputs: its tensors.
        requested: the outputs that are needed.

    Raises:
        MachineError: it failed.
    """
    tensors = [pb_utils.Tensor(key, np.ascontiguousarray(array)) for key, array in inputs.items()]
    on_host = pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_CPU, 0)
    request = pb_utils.InferenceRequest(
        model_name=name, inputs=tensors, requested_output_names=list(requested), preferred_memory=on_host
    )
    answer = request.exec()
    if answer.has_error():
        raise MachineError(f"an answer of model {name!r}", answer.error().message(), "see the server's log")
    return {key: pb_utils.get_output_tensor_by_name(answer, key).as_numpy() for key in requested}


def require_numpy_1(version: str) -> None:
    """Refuse NumPy 2 in the stub's environment.

    Raises:
        MachineError: the version is 2 or later.
    """
    if int(version.split(".", maxsplit=1)[0]) >= 2:
        raise MachineError("NumPy 1.x for Triton's Python stub", version, 'run `pip install "numpy<2"`')


def engine_settings(arguments: dict[str, str]) -> EngineSettings:
    """How much an engine may do at once, by the parameters of ``config.pbtxt``.

    Args:
        arguments: what Triton hands to ``initialize``.
    """
    parameters = json.loads(arguments["model_config"])["parameters"]
    return EngineSettings.from_parameters({name: one["string_value"] for name, one in parameters.items()})


def declared_outputs(arguments: dict[str, str]) -> frozenset[str]:
    """The outputs that ``config.pbtxt`` names.

    Args:
        arguments: what Triton hands to ``initialize``.
    """
    return frozenset(output["name"] for output in json.loads(arguments["model_config"])["output"])


def tensors_of(request: Any) -> dict[str, Array]:
    """The inputs that a client sent."""
    return {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}


def tensor_of(request: Any, name: str) -> Array | None:
    """An input of a request, or None where the client left it out."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return None if tensor is None else tensor.as_numpy()


def requested_outputs(request: Any) -> set[str]:
    """The names of the outputs of a request; all of the model's where the client named none."""
    return set(request.requested_output_names())


def asks_to_explain(request: Any) -> bool:
    """Whether a request has the parameter ``explain``.

    Not the outputs that it names: to Triton a request that names none has named them all, a warm-up among them.

    Raises:
        InputError: the parameter is neither true nor false.
    """
    return _read_bool(request, EXPLAIN)


def answer_without_explanation(requests: list[Any], answers_to: Callable[[list[Any]], Sequence[Any]]) -> list[Any]:
    """Answers of a model that explains nothing: who asks it to is refused, the others are answered together.

    Args:
        requests: that came together.
        answers_to: an answer, or an error, for each of some requests.
    """
    refusals = [_refused_explanation(request) for request in requests]
    plain = [request for request, refusal in zip(requests, refusals, strict=True) if refusal is None]
    answers = iter(answers_to(plain) if plain else ())
    return [next(answers) if refusal is None else refusal for refusal in refusals]


def is_rendered(request: Any) -> bool:
    """Whether the text of a request was made by a chat template.

    Raises:
        InputError: the parameter is neither true nor false.
    """
    return _read_bool(request, RENDERED)


def parses_special(request: Any) -> bool:
    """Whether special tokens in the texts of a request are read as such.

    Raises:
        InputError: the parameter is neither true nor false.
    """
    return _read_bool(request, PARSE_SPECIAL)


def cancel_key(request: Any) -> str:
    """The secret by which another call may cancel a request; empty where none may.

    Raises:
        InputError: it could be guessed.
    """
    key = _parameters(request).get(CANCEL_KEY, "")
    if key == "" or (isinstance(key, str) and SHORTEST_KEY <= len(key) <= LONGEST_KEY):
        return str(key)
    raise InputError(
        f"a {CANCEL_KEY} of {SHORTEST_KEY} to {LONGEST_KEY} random characters",
        type(key).__name__ if not isinstance(key, str) else f"one of {len(key)}",
        "draw one for each request, as with secrets.token_urlsafe()",
        param=CANCEL_KEY,
    )


def cancelled_key(request: Any) -> str:
    """The secret of the earlier request that this one cancels; empty if it cancels none.

    Raises:
        InputError: it is no text.
    """
    key = _parameters(request).get(CANCEL, "")
    if not isinstance(key, str):
        remedy = "send the key of the earlier request"
        raise InputError(f"a text for the parameter {CANCEL!r}", repr(key), remedy, param=CANCEL)
    return key


def health_request(request: Any) -> list[str] | None:
    """The keys of the requests that this one asks about, if any; None if it asks for no health."""
    value = _parameters(request).get(HEALTH)
    return None if value is None else [key for key in str(value).split(HEALTH_SEPARATOR) if key]


def response(outputs: dict[str, Array]) -> Any:
    return pb_utils.InferenceResponse([pb_utils.Tensor(name, array) for name, array in outputs.items()])


def health_response(health: EngineHealth) -> Any:
    """How an engine is doing, as JSON in the place of a text."""
    return response({TEXT_OUTPUT: np.array([[msgspec.json.encode(health)]], dtype=object)})


def error_response(error: Exception) -> Any:
    """A response that carries an error, as the JSON of its record: a stream drops Triton's status.

    The client's mistake is INVALID_ARG, a full queue UNAVAILABLE, a cancelled request CANCELLED, anything else
    INTERNAL.
    """
    codes: dict[type[Exception], Any] = {
        InputError: pb_utils.TritonError.INVALID_ARG,
        BusyError: pb_utils.TritonError.UNAVAILABLE,
        LoadingError: pb_utils.TritonError.UNAVAILABLE,
        LostError: pb_utils.TritonError.UNAVAILABLE,
        CancelledError: pb_utils.TritonError.CANCELLED,
    }
    code = codes.get(type(error), pb_utils.TritonError.INTERNAL)
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(status_message(error), code))


def _refused_explanation(request: Any) -> InputError | None:
    try:
        explain = asks_to_explain(request)
        parses_special(request)  # whose error must not be that of the whole batch
    except InputError as error:
        return error
    remedy = "leave the parameter explain out"
    return InputError("a model that explains its answers", "one that cannot", remedy) if explain else None


def _read_bool(request: Any, name: str) -> bool:
    value = _parameters(request).get(name, False)
    if not isinstance(value, bool):
        raise InputError(f"true or false for the parameter {name!r}", repr(value), "send a boolean")
    return value


def _parameters(request: Any) -> dict[str, Any]:
    parameters: dict[str, Any] = json.loads(request.parameters() or "{}")
    return parameters


def counters(name: str, meaning: str) -> Any:
    """A family of counters."""
    return pb_utils.MetricFamily(name=name, description=meaning, kind=pb_utils.MetricFamily.COUNTER)


def gauges(name: str, meaning: str) -> Any:
    """A family of gauges."""
    return pb_utils.MetricFamily(name=name, description=meaning, kind=pb_utils.MetricFamily.GAUGE)
