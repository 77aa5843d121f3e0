"""The only importer of tensorrt in serving: the library, its log, and engines from their files.

Where the libraries lie without their Python package, the bindings alone (``tensorrt_bindings``) do, of exactly that
version: they call the library's objects by position.
"""

from __future__ import annotations

import importlib
import logging
from functools import cache
from pathlib import Path
from typing import Any

from attendant.engine_manifest import Engine
from attendant.errors import ArtefactError, MachineError
from serving.runtime.tensorrt.this_machine import tensorrt_version

_PACKAGES = ("tensorrt", "tensorrt_bindings")
_INSTALL = "run in a container that holds it (docs/guides/tensorrt.md), or `pip install tensorrt-cu13-bindings=={}`"


@cache
def tensorrt_module() -> Any:
    """The Python package of TensorRT.

    Raises:
        MachineError: tensorrt is not installed, or is of another version than the library.
    """
    version = tensorrt_version()
    for name in _PACKAGES:
        try:
            trt = importlib.import_module(name)
        except ImportError:
            continue
        if trt.__version__.split(".")[:3] != version.split("."):
            raise MachineError(
                f"tensorrt {version}, as libnvinfer is", trt.__version__, _INSTALL.format(f"{version}.*")
            )
        return trt
    raise MachineError("the Python package tensorrt", f"libnvinfer {version} alone", _INSTALL.format(f"{version}.*"))


@cache
def tensorrt_log() -> Any:
    """A logger that TensorRT writes to, and that hands on what it says to Python's log."""
    trt: Any = tensorrt_module()
    levels = {
        trt.ILogger.Severity.INTERNAL_ERROR: logging.CRITICAL,
        trt.ILogger.Severity.ERROR: logging.ERROR,
        trt.ILogger.Severity.WARNING: logging.WARNING,
        trt.ILogger.Severity.INFO: logging.DEBUG,
        trt.ILogger.Severity.VERBOSE: logging.NOTSET,
    }

    def log(_: Any, severity: Any, message: str) -> None:
        logging.getLogger("tensorrt").log(levels[severity], message)

    return type("Log", (trt.ILogger,), {"log": log})()


def load_engine(folder: Path, engine: Engine) -> Any:
    """An engine from its file, its weights filled in where it was stored without them.

    Args:
        folder: the artefact, with the ONNX graph that an engine without weights was built from.
        engine: what its manifest says of it.

    Raises:
        MachineError: there is no TensorRT.
        ArtefactError: the library cannot read the file, or the weights do not fit.
    """
    trt, path = tensorrt_module(), folder / engine.file
    runtime = trt.Runtime(tensorrt_log())
    runtime.engine_host_code_allowed = engine.version_compatible  # such an engine brings a runtime of its own along
    loaded = runtime.deserialize_cuda_engine(path.read_bytes())
    if loaded is None:
        raise ArtefactError(f"an engine of this TensorRT at {path}", "one that it cannot read", "build it again")
    if engine.weights == "stripped":
        fill_weights(loaded, folder / engine.source)
    return loaded


def fill_weights(engine: Any, graph: Path) -> None:
    """Put the weights of an ONNX graph into an engine, in the place of its own or of none.

    Raises:
        ArtefactError: the graph has not the weights that the engine asks for.
    """
    trt = tensorrt_module()
    refitter = trt.Refitter(engine, tensorrt_log())
    graph_parser = trt.OnnxParserRefitter(refitter, tensorrt_log())
    filled = graph_parser.refit_from_file(str(graph))
    if not filled or not refitter.refit_cuda_engine():
        errors = [graph_parser.get_error(index).desc() for index in range(graph_parser.num_errors)]
        found = "; ".join(errors) or "not all of them"
        raise ArtefactError(f"every weight that the engine asks for in {graph}", found, "build the engine again")
