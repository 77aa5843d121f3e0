"""Rules on the text itself: it parses, its strings are filled in, its names are right."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from serving.lint.backends import BACKENDS, ENSEMBLE
from serving.lint.model import Model
from serving.lint.rule import Finding, Rule
from serving.lint.sources import LIFECYCLE, REFUSED, VALIDATION
from serving.triton.repository.layout import CONFIG_NAME

_PLACEHOLDER = re.compile(r"\$\{[A-Za-z_]\w*\}")


def _missing(model: Model) -> Iterator[Finding]:
    if not (model.folder / CONFIG_NAME).exists():
        yield Finding(where=CONFIG_NAME, found=model.unread)


def _unread(model: Model) -> Iterator[Finding]:
    if model.unread and (model.folder / CONFIG_NAME).exists():
        yield Finding(where=CONFIG_NAME, found=model.unread)


def _name(model: Model) -> Iterator[Finding]:
    if model.config.name not in ("", model.folder.name):
        yield Finding(where="name", found=f"{model.config.name!r} in the folder {model.folder.name!r}")


def _placeholders(model: Model) -> Iterator[Finding]:
    for where, value in _strings(model.config, ""):
        for match in _PLACEHOLDER.finditer(value):
            yield Finding(where=where, found=match.group())


def _strings(message: Any, path: str) -> Iterator[tuple[str, str]]:
    for field, value in message.ListFields():
        for where, part in _parts(value, f"{path}{field.name}"):
            if isinstance(part, str):
                yield where, part
            elif hasattr(part, "ListFields"):
                yield from _strings(part, f"{where}.")


def _parts(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if hasattr(value, "items"):
        for key, part in value.items():
            yield f"{path} (key)", key
            yield f"{path}[{key!r}]", part
    elif isinstance(value, str | bytes) or not hasattr(value, "__len__"):
        yield path, value
    else:
        for index, part in enumerate(value):
            yield f"{path}[{index}]", part


def _backend(model: Model) -> Iterator[Finding]:
    config, known = model.config, BACKENDS.get(model.config.backend)
    if not model.backend and not config.platform:
        yield Finding(where="backend", found="neither backend nor platform, and no file that tells")
    elif config.platform == ENSEMBLE and config.backend:
        yield Finding(where="backend", found=f"{config.backend!r} of an ensemble")
    elif known and known.platforms and config.platform and config.platform not in known.platforms:
        yield Finding(where="platform", found=f"{config.platform!r} with the backend {config.backend!r}")


def _tensors(model: Model) -> Iterator[Finding]:
    for kind in ("input", "output"):
        for tensor in getattr(model.config, kind):
            where = f"{kind} {tensor.name!r}"
            if not tensor.data_type:
                yield Finding(where=where, found="no data_type")
            if not tensor.dims or any(size < 1 and size != -1 for size in tensor.dims):
                yield Finding(where=where, found=f"dims {list(tensor.dims)}")


def _reshaped(model: Model) -> Iterator[Finding]:
    for kind in ("input", "output"):
        for tensor in getattr(model.config, kind):
            dims, shape = list(tensor.dims), list(tensor.reshape.shape)
            if not tensor.HasField("reshape"):
                continue
            if _products(dims) != _products(shape) or (not shape and not model.config.max_batch_size):
                yield Finding(where=f"{kind} {tensor.name!r}", found=f"dims {dims}, reshape {shape}")


def _products(dims: list[int]) -> list[int]:
    products = [1]
    for size in dims:  # one product between each two sizes that vary
        products = [*products, 1] if size == -1 else [*products[:-1], products[-1] * size]
    return products


FILE_OF_ITS_OWN: tuple[Rule[Model], ...] = (
    Rule(
        name="no-configuration",
        severity="warning",
        statement="every folder of the repository has a config.pbtxt",
        consequence="the server takes the folder for a model, and completes what it can from the model's file, the "
        "batching too; with --disable-auto-complete-config it refuses the model",
        source="server, docs/user_guide/model_configuration.md",
        remedy="write one, or move a folder that is no model elsewhere",
        find=_missing,
    ),
    Rule(
        name="configuration",
        severity="error",
        statement="config.pbtxt is a ModelConfig, every field known",
        consequence=REFUSED,
        source="model_config.proto of tritonclient 2.73, read by protobuf's text parser",
        remedy="correct the field; `attendant repository` writes the file from an artefact",
        find=_unread,
    ),
)
TEXT_RULES: tuple[Rule[Model], ...] = (
    Rule(
        name="name",
        severity="error",
        statement="the model is called as its folder is",
        consequence=REFUSED,
        source=f"{LIFECYCLE}: directory name must equal model name",
        remedy="rename one of them, or leave name out",
        find=_name,
    ),
    Rule(
        name="placeholder",
        severity="error",
        statement="no ${placeholder} is left in a string",
        consequence="the text parser takes it for a value, and the model looks for a file or a setting of that name",
        source="tried with protobuf's text parser; tensorrtllm_backend's fill_template.py leaves them behind",
        remedy="fill it in, or leave the field out",
        find=_placeholders,
    ),
    Rule(
        name="backend",
        severity="error",
        statement="a backend is named or follows from the model's file, and platform fits it",
        consequence=REFUSED,
        source=VALIDATION,
        remedy='name one, for instance backend: "onnxruntime", and leave platform out',
        find=_backend,
    ),
    Rule(
        name="tensor",
        severity="error",
        statement="every input and output has a data_type, and dims that are −1 or at least 1",
        consequence=REFUSED,
        source=f"{VALIDATION}: ValidateIOShape",
        remedy="state both; a scalar is dims: [ 1 ] with an empty reshape",
        find=_tensors,
    ),
    Rule(
        name="reshape",
        severity="error",
        statement="a reshape has the elements of dims, between every two −1 too; an empty one is of batching models",
        consequence=REFUSED,
        source=f"{VALIDATION}: ValidateIOShape",
        remedy="correct one of the two; reshape is what the model sees",
        find=_reshaped,
    ),
)
