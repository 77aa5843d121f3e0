"""Rules on the text itself: it parses, and its strings are filled in."""

import re
from collections.abc import Iterator
from typing import Any

from serving.lint.model import Model
from serving.lint.rule import Finding, rule
from serving.lint.sources import REFUSED
from serving.triton.repository.layout import CONFIG_NAME

_CODE = ("EXECUTION_ENV_PATH", "TRITON_BATCH_STRATEGY_PATH")
_PLACEHOLDER = re.compile(r"\$\{[A-Za-z_]\w*\}")


@rule(
    severity="warning",
    statement="every folder of the repository has a config.pbtxt",
    consequence="the server takes the folder for a model, and completes what it can from the model's file, the "
    "batching too; with --disable-auto-complete-config it refuses the model",
    source="server, docs/user_guide/model_configuration.md",
    remedy="write one, or move a folder that is no model elsewhere",
)
def no_configuration(model: Model) -> Iterator[Finding]:
    if not (model.folder / CONFIG_NAME).exists():
        yield Finding(where=CONFIG_NAME, found=model.unread)


@rule(
    severity="error",
    statement="config.pbtxt is a ModelConfig, every field known",
    consequence=REFUSED,
    source="model_config.proto of tritonclient 2.73, read by protobuf's text parser",
    remedy="correct the field; `attendant repository` writes the file from an artefact",
)
def configuration(model: Model) -> Iterator[Finding]:
    if model.unread and (model.folder / CONFIG_NAME).exists():
        yield Finding(where=CONFIG_NAME, found=model.unread)


@rule(
    severity="error",
    statement="no ${placeholder} is left in a string",
    consequence="the text parser takes it for a value, and the model looks for a file or a setting of that name",
    source="tried with protobuf's text parser; tensorrtllm_backend's fill_template.py leaves them behind",
    remedy="fill it in, or leave the field out",
)
def placeholder(model: Model) -> Iterator[Finding]:
    for where, value in _strings(model.config, ""):
        for match in _PLACEHOLDER.finditer(value):
            yield Finding(where=where, found=match.group())


@rule(
    severity="warning",
    statement=f"no parameter is {' or '.join(_CODE)}",
    consequence="as the model is loaded, the server runs what the parameter names: the script of an archive, or a "
    "library within tritonserver itself",
    source="python_backend, README.md; server, docs/user_guide/model_configuration.md; tritonserver 2.51 ran both",
    remedy="look whose file it is, or leave the parameter out: artefacts of Attendant have neither",
)
def named_code(model: Model) -> Iterator[Finding]:
    for name in _CODE:
        if name in model.config.parameters:
            where = f"parameters[{name!r}].string_value"
            yield Finding(where=where, found=model.config.parameters[name].string_value)


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
