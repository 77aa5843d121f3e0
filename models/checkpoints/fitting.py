"""Whether a configuration asks for a model of the size that its file holds: found without building it.

A configuration is text, and costs nothing: ten to the ninth blocks build for hours. The header of the weights is the
truth: no size is larger, and no more tensors are made, than the file can fill.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from attendant.errors import ArtefactError, ConfigError
from attendant.records import open_file

LARGEST_SIZE = 2**24
"""More than any axis of a model has, a vocabulary's or a context's too."""
LARGEST_HEADER = 2**24
"""Bytes of the header of a safetensors file, of which a tensor takes about a hundred."""
_CALLS, _CALLS_OF_TENSOR = 20_000, 1_000
_NUMBERS, _NUMBERS_OF_NUMBER = 2**26, 4
"""Masks and tables that a model computes by itself; a tied or fused tensor, which a file holds once."""
_REMEDY = "pair the weights with their own config.json"


class _CallCounter(TorchFunctionMode):
    def __init__(self, most: int) -> None:
        super().__init__()
        self._left = most

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._left -= 1
        if self._left < 0:
            raise _too_large("more layers")
        return func(*args, **kwargs or {})


def require_fitting(build: Callable[[], nn.Module], config: object, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse a configuration of a larger model than its file holds.

    Args:
        build: makes the module of the configuration.
        config: of which sizes are read.
        shapes: of the tensors in the file.

    Raises:
        ConfigError: a size is out of reach, or the model has many more layers or numbers than the file.
    """
    for name, size in _sizes(config):
        if abs(size) > LARGEST_SIZE:
            raise ConfigError(f"{name} of at most {LARGEST_SIZE}", str(size)[:100], "correct config.json")
    try:
        with torch.device("meta"), _CallCounter(_CALLS + _CALLS_OF_TENSOR * len(shapes)):
            module = build()
    except RuntimeError as error:  # a product of sizes that no tensor can have
        raise _too_large(str(error).partition("\n")[0]) from error
    numbers = sum(tensor.numel() for tensor in (*module.parameters(), *module.buffers()))
    if numbers > _NUMBERS + _NUMBERS_OF_NUMBER * sum(map(prod, shapes.values())):
        raise _too_large(f"{numbers} numbers")


def require_bounded_header(path: Path) -> None:
    """Refuse a safetensors file whose header is too large to be read.

    Raises:
        ArtefactError: it is.
        OSError: the file cannot be read.
    """
    with open_file(path, sys.maxsize) as descriptor:  # a pipe would wait
        length = int.from_bytes(os.read(descriptor, 8), "little")
    if length > LARGEST_HEADER:
        raise ArtefactError(f"a whole safetensors file at {path}", f"a header of {length} bytes", "copy the file again")


def _sizes(config: object, place: str = "") -> Iterator[tuple[str, int]]:
    if is_dataclass(config):
        for one in fields(config):
            yield from _sizes(getattr(config, one.name), f"{place}.{one.name}" if place else one.name)
    elif isinstance(config, tuple | list):
        for value in config:
            yield from _sizes(value, place)
    elif isinstance(config, int):
        yield place, config


def _too_large(found: str) -> ConfigError:
    return ConfigError("a configuration of the model that the weights are of", f"{found[:200]}", _REMEDY)
