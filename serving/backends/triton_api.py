"""The only importer of Triton's Python-backend API, which exists nowhere but inside Triton's stub process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from models.errors import InputError, MachineError
from models.manifest import Manifest
from models.tensor_names import CANCEL, EXPLAIN
from serving.parameters import RUNTIME, THREADS, Runtime
from serving.runtime.base import Array

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


def load_artefact(arguments: dict[str, str]) -> tuple[Path, Manifest, int, Runtime]:
    """The artefact in the version folder that Triton loads, verified file by file.

    Args:
        arguments: what Triton hands to ``initialize``.

    Returns:
        Its folder, its manifest, how many threads one run of a graph may use, and which runtime runs it.

    Raises:
        ArtefactError: a file is missing or not what the manifest says.
        MachineError: NumPy 2 is installed, under which this stub returns empty tensors with status OK.
    """
    require_numpy_1(np.__version__)
    folder = Path(arguments["model_repository"]) / arguments["model_version"]
    manifest = Manifest.read(folder)
    manifest.verify(folder)
    parameters = json.loads(arguments["model_config"])["parameters"]
    runtime = parameters.get(RUNTIME, {"string_value": "auto"})["string_value"]
    return folder, manifest, int(parameters[THREADS]["string_value"]), runtime


def require_numpy_1(version: str) -> None:
    """Refuse NumPy 2 in the stub's environment.

    Raises:
        MachineError: the version is 2 or later.
    """
    if int(version.split(".", maxsplit=1)[0]) >= 2:
        raise MachineError("NumPy 1.x beside Triton's Python stub", version, 'run `pip install "numpy<2"`')


def tensor_of(request: Any, name: str) -> Array | None:
    """An input of a request, or None where the client left it out."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return None if tensor is None else tensor.as_numpy()


def wanted_outputs(request: Any) -> set[str]:
    """The names of the outputs that a request asks for; all of the model's where the client named none."""
    return set(request.requested_output_names())


def asks_to_explain(request: Any) -> bool:
    """Whether a request has the parameter ``explain``.

    Not the outputs that it names: to Triton a request that names none has named them all, a warm-up among them.

    Raises:
        InputError: the parameter is neither true nor false.
    """
    value = _parameters(request).get(EXPLAIN, False)
    if not isinstance(value, bool):
        raise InputError(f"true or false for the parameter {EXPLAIN!r}", repr(value), "send a boolean")
    return value


def takes_back(request: Any) -> str:
    """The id of the earlier request that this one takes back; empty if it takes none back."""
    return str(_parameters(request).get(CANCEL, ""))


def response(outputs: dict[str, Array]) -> Any:
    """A response with the given outputs."""
    return pb_utils.InferenceResponse([pb_utils.Tensor(name, array) for name, array in outputs.items()])


def error_response(error: Exception) -> Any:
    """A response that carries an error: the client's mistake as INVALID_ARG, anything else as INTERNAL."""
    return _refusal(error, str(error))


def stream_error_response(error: Exception) -> Any:
    """The same for a stream, which drops the code: a client's mistake begins with ``INVALID_ARG:``."""
    return _refusal(error, f"INVALID_ARG: {error}" if isinstance(error, InputError) else str(error))


def _parameters(request: Any) -> dict[str, Any]:
    parameters: dict[str, Any] = json.loads(request.parameters() or "{}")
    return parameters


def _refusal(error: Exception, message: str) -> Any:
    code = pb_utils.TritonError.INVALID_ARG if isinstance(error, InputError) else pb_utils.TritonError.INTERNAL
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(message, code))


def unavailable_response(message: str) -> Any:
    """A response that asks the client to come again."""
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(message, pb_utils.TritonError.UNAVAILABLE))
