"""A custom model: a Python file whose ``model()`` returns the module and what goes in and out of it."""

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from attendant.errors import ArtefactError, AttendantError, ConfigError
from models.checkpoints.store import Checkpoint
from models.families.family import Family
from models.tasks.predict import Contract, ContractModel, PredictorConfig

FUNCTION = "model"


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomModel:
    """What ``model()`` returns.

    Attributes:
        name: of the model everywhere: artefact, Triton.
        module: the trained module, in float32.
        contract: its inputs and outputs.
        details: what clients are to know of it: labels, units; free JSON values.
        example: ``{"inputs": {name: nested lists}, "answer": {name: nested lists}}``, one row each; the server counts
            as ready when it answers it so. What the module itself says is the answer where none is given.
    """

    name: str
    module: nn.Module
    contract: Contract
    details: dict[str, Any] = field(default_factory=dict)
    example: dict[str, Any] = field(default_factory=dict)


def load_custom_model(path: Path) -> Checkpoint:
    """Run a file's ``model()``.

    Raises:
        ArtefactError: the file cannot be run, or has no such function, or it returns something else.
        ConfigError: the contract is not whole.
    """
    with _importing_from(path.resolve().parent) as neighbours:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        file = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(file)
        except Exception as error:
            raise ArtefactError(
                f"a Python file that runs at {path}", f"{type(error).__name__}: {error}", _REMEDY
            ) from error
        if not callable(function := getattr(file, FUNCTION, None)):
            defined = {name for name, value in vars(file).items() if callable(value) and not name.startswith("_")}
            raise ArtefactError(f"a function {FUNCTION}() in {path}", f"{sorted(defined)}", _REMEDY)
        try:
            custom = function()
        except AttendantError:
            raise
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
            raise ArtefactError(f"{FUNCTION}() in {path} to return", found, _REMEDY) from error
    if not isinstance(custom, CustomModel):
        raise ArtefactError(f"a CustomModel from {FUNCTION}() in {path}", type(custom).__name__, _REMEDY)
    module = custom.module.eval().requires_grad_(False)
    return Checkpoint(
        name=custom.name,
        family=Family(name="own", graphs="predict", config=PredictorConfig, build=_only_its_file_can),
        model=ContractModel(module, custom.contract),
        details=custom.details,
        example=_example_with_answer(custom),
        code=(path, *neighbours),
    )


@contextmanager
def _importing_from(folder: Path) -> Iterator[list[Path]]:
    """Let a file import its neighbours, as when Python runs it, and forget them; the list is filled in at the end."""
    before: set[str] = set(sys.modules)
    neighbours: list[Path] = []
    sys.path.insert(0, str(folder))
    try:
        yield neighbours
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            file = Path(getattr(sys.modules[name], "__file__", None) or "/")
            if file.is_relative_to(folder) and "site-packages" not in file.parts:
                del sys.modules[name]
                neighbours.append(file)
        neighbours.sort()


def _example_with_answer(custom: CustomModel) -> dict[str, Any]:
    inputs = custom.example.get("inputs")
    if inputs is None or "answer" in custom.example:
        return custom.example
    if inputs.keys() != {spec.name for spec in custom.contract.inputs}:
        raise ConfigError(
            f"an example for the inputs {[spec.name for spec in custom.contract.inputs]}", str(sorted(inputs)), _REMEDY
        )
    rows = [torch.tensor(inputs[spec.name], dtype=getattr(torch, spec.dtype)) for spec in custom.contract.inputs]
    outputs = custom.module(*(row[None] for row in rows))
    tensors = (outputs,) if isinstance(outputs, Tensor) else outputs
    answer = {spec.name: tensor[0].tolist() for spec, tensor in zip(custom.contract.outputs, tensors, strict=True)}
    return {"inputs": inputs, "answer": answer}


_REMEDY = "see docs/tutorials/your-own-model.md"


def _only_its_file_can(config: PredictorConfig) -> NoReturn:
    raise ConfigError("the file that builds the model", f"the module {config.module} alone", _REMEDY)
