"""A ``.pt2`` file, what ``torch.export.save`` writes: a module without its Python code.

Source: PyTorch, torch.export. Its reader unpickles parts of the file: load only what you trust, as a Python file.
"""

import copy
import json
import warnings
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch.fx import GraphModule

from attendant.custom_model import Contract
from attendant.errors import ArtefactError, AttendantError, ConfigError
from attendant.records import record_from_json
from attendant.signature import TensorSpec
from models.checkpoints.store import Checkpoint
from models.families.family import Family
from models.tasks.predict import ContractModel, PredictorConfig

RECORD_NAME = "attendant.json"
_UNBOUNDED = 512
"""The largest size of an axis for which the program has none."""
_MOST_NUMBERS = 4096
"""Of an example: it travels in the server's configuration."""
_EXPORT_AGAIN = (
    "export it as torch.export.export(module, inputs, dynamic_shapes=…), with a Dim('batch') for each first axis"
)


class ProgramModule(nn.Module):
    """An exported program as a module of plain tensors."""

    def __init__(self, program: Any, outputs: tuple[str, ...], named: tuple[str, ...] = ()) -> None:
        """Unlift a program.

        Args:
            program: of ``torch.export``.
            outputs: the names in a dict that it returns, in the order wanted.
            named: those of its last inputs that it takes by name.
        """
        super().__init__()
        self.program = program.module(check_guards=False)
        self.outputs, self.named = outputs, named
        for part in self.program.modules():  # or .to() would not move them
            for name, value in [one for one in vars(part).items() if isinstance(one[1], Tensor)]:
                delattr(part, name)
                part.register_buffer(name, value, persistent=False)

    def train(self, mode: bool = True) -> "ProgramModule":
        """A program is what it was exported as."""
        return self

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The outputs in order."""
        positional = len(tensors) - len(self.named)
        given = dict(zip(self.named, tensors[positional:], strict=True))
        found = self.program(*tensors[:positional], **given)
        if isinstance(found, Tensor):
            return (found,)
        return tuple(found[name] for name in self.outputs) if isinstance(found, dict) else tuple(found)


def copy_as(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """A copy of a module in a floating-point type, with the types that its exported programs have written down."""

    def translate(value: Any) -> Any:
        return dtype if value == torch.float32 else value

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of torch, about itself
        module = copy.deepcopy(module).to(dtype)
    for part in module.modules():
        if isinstance(part, GraphModule):
            for node in part.graph.nodes:
                node.args = torch.fx.node.map_aggregate(node.args, translate)
                node.kwargs = torch.fx.node.map_aggregate(node.kwargs, translate)
            part.recompile()
    return module


def load_program(path: Path) -> Checkpoint:
    """Read a ``.pt2`` file: with the contract that a custom model left in it, or with the one that its axes say.

    Raises:
        ArtefactError: it cannot be read, or its inputs are no plain tensors.
        ConfigError: a first axis does not vary.
    """
    extra = {RECORD_NAME: ""}
    try:
        program = torch.export.load(path, extra_files=extra)
    except Exception as error:  # of many kinds
        found = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        remedy = "write it with torch.export.save, by this version of torch or an older one"
        raise ArtefactError(f"an exported program at {path}", found, remedy) from error
    try:
        return _from_record(program, json.loads(extra[RECORD_NAME])) if extra[RECORD_NAME] else _inferred(program, path)
    except AttendantError:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise ArtefactError(f"a contract in {path}", f"{type(error).__name__}: {error}", "export it again") from error


def _from_record(program: Any, record: dict[str, Any]) -> Checkpoint:
    contract = record_from_json(Contract, record["contract"])
    return _checkpoint(record["name"], program, contract, (), record["details"], record["example"], contract.below)


def _checkpoint(
    name: str,
    program: Any,
    contract: Contract,
    named: tuple[str, ...],
    details: dict[str, Any],
    example: dict[str, Any],
    below: dict[str, int],
) -> Checkpoint:
    module = ProgramModule(program, tuple(spec.name for spec in contract.outputs), named).requires_grad_(False)
    return Checkpoint(
        name=name,
        family=Family(name="own", graphs="predict", config=PredictorConfig, build=_only_its_file_can),
        model=ContractModel(module, contract, below),
        details=details,
        example=example,
    )


def _only_its_file_can(config: PredictorConfig) -> NoReturn:
    raise ConfigError("the file that builds the model", f"the module {config.module} alone", "name that file")


def _inferred(program: Any, path: Path) -> Checkpoint:
    arguments, keywords = program.example_inputs
    plain = all(isinstance(one, Tensor) for one in (*arguments, *keywords.values()))
    if not plain:
        raise ArtefactError(f"tensors alone as inputs of {path}", "others, or nested ones", "flatten them in forward()")
    nodes = {node.name: node for node in program.graph.nodes}
    inputs = [nodes[name] for name in program.graph_signature.user_inputs]
    axes = _name_axes(inputs, path)
    results = [nodes[name] for name in program.graph_signature.user_outputs]
    specs = tuple(_spec(node.name, node, axes) for node in inputs)
    outputs = tuple(
        _spec(name, node, axes) for name, node in zip(_output_names(program, len(results)), results, strict=True)
    )
    bounds = {axes[symbol]: bound for symbol, bound in _bounds(program).items() if axes.get(symbol, "batch") != "batch"}
    integers = [node for node in inputs if not _dtype(node).startswith(("float", "bool"))]
    rows = {node.name: _table_rows(node) for node in integers}
    contract = Contract(
        inputs=specs,
        outputs=outputs,
        largest={axis: most for axis, (_, most) in bounds.items()},
        smallest={
            axis: least for axis, (least, _) in bounds.items() if least > 2
        },  # 0 and 1 are what export leaves out
        below={name: count or 2 for name, count in rows.items()},
    )
    known = {name: count for name, count in rows.items() if count}
    found = _checkpoint(_plain_name(path.stem), program, contract, tuple(keywords), {}, {}, known)
    return replace(found, example=_example(found, (*arguments, *keywords.values()), contract))


def _name_axes(inputs: Iterable[Any], path: Path) -> dict[str, str]:
    axes: dict[str, str] = {}
    for node in inputs:
        for index, size in enumerate(node.meta["val"].shape):
            if index == 0:
                if isinstance(size, int) or axes.setdefault(str(size), "batch") != "batch":
                    found = f"{size}, which does not vary" if isinstance(size, int) else "another axis"
                    raise ConfigError(f"a batch as the first axis of {node.name!r} in {path}", found, _EXPORT_AGAIN)
            elif not isinstance(size, int):
                axes.setdefault(str(size), f"{node.name}_{index}")
    return axes


def _spec(name: str, node: Any, axes: dict[str, str]) -> TensorSpec:
    def axis(size: Any) -> int | str:
        if isinstance(size, int):
            return size
        if str(size) not in axes:
            remedy = "give inputs and outputs axes of the same sizes, or fixed ones"
            raise ConfigError(f"an axis of {name!r} that an input has", f"the size {size}", remedy)
        return axes[str(size)]

    return TensorSpec(name=name, dtype=_dtype(node), axes=tuple(axis(size) for size in node.meta["val"].shape))


def _dtype(node: Any) -> Any:
    return str(node.meta["val"].dtype).removeprefix("torch.")


def _output_names(program: Any, count: int) -> list[str]:
    keys = program.call_spec.out_spec.context
    if isinstance(keys, list) and len(keys) == count and all(isinstance(key, str) for key in keys):
        return keys
    return ["output"] if count == 1 else [f"output_{index}" for index in range(count)]


def _bounds(program: Any) -> dict[str, tuple[int, int]]:
    def bound(value: Any) -> int:
        return int(value) if value.is_number and value.is_finite and value < 1 << 31 else _UNBOUNDED

    ranges = program.range_constraints.items()
    return {str(symbol): (max(1, bound(found.lower)), bound(found.upper)) for symbol, found in ranges}


def _table_rows(node: Any) -> int:
    """The rows of the table that an integer input is looked up in; 0 where there is none."""
    for user in node.users:
        if user.target is torch.ops.aten.embedding.default:
            return int(user.args[0].meta["val"].shape[0])
    return 0


def _plain_name(stem: str) -> str:
    return "".join(one if one.isalnum() or one in "-_" else "-" for one in stem.lower()) or "model"


def _example(checkpoint: Checkpoint, tensors: tuple[Tensor, ...], contract: Contract) -> dict[str, Any]:
    rows = [tensor[:1] for tensor in tensors]
    with torch.no_grad():
        outputs = [output[:1] for output in checkpoint.model(*rows)]
    if sum(tensor.numel() for tensor in (*rows, *outputs)) > _MOST_NUMBERS:
        return {}
    return {
        part: {spec.name: tensor[0].tolist() for spec, tensor in zip(specs, values, strict=True)}
        for part, specs, values in (("inputs", contract.inputs, rows), ("answer", contract.outputs, outputs))
    }
