"""Every plugin registered with TensorRT, whose parser then finds it by its namespace, name and version."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from attendant.errors import MachineError
from serving.runtime.tensorrt.library import tensorrt_module

_MODULES = (
    "flash_attention",
    "decode_attention",
    "combine_splits",
    "decode_append_attention",
    "window_attention",
    "additive_attention",
)


def register_plugins() -> ModuleType:
    """Register them all, once a process.

    Returns:
        :mod:`export.tensorrt.plugins.embedding`, within which engines with plugins are built.

    Raises:
        MachineError: TensorRT, Triton's compiler or PyTorch is not here.
    """
    sys.modules.setdefault("tensorrt", tensorrt_module())  # the bindings alone are imported by another name
    try:
        for name in _MODULES:
            importlib.import_module(f"export.tensorrt.plugins.{name}")
    except ModuleNotFoundError as error:
        remedy = "install torch==2.13.0 and triton==3.9.0, or build with --attention native"
        raise MachineError("what compiles plugins", str(error), remedy) from error
    return importlib.import_module("export.tensorrt.plugins.embedding")
