"""What a Python file of yours says of its model: all of Attendant that such a file imports.

The file runs in a process where the packages of your own project are found, by any name, and none of ours but this one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from attendant.errors import ConfigError
from attendant.names import is_detail_name
from attendant.signature import TensorSpec

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Contract", "CustomModel", "TensorSpec"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """What goes into a module and what comes out.

    Attributes:
        inputs: in the order of the parameters of ``forward``; the first axis of each is ``batch``, of two or more.
        outputs: in the order in which ``forward`` returns them, or its keys where it returns a dict; the first axis of
            each is ``batch``, of two or more.
        largest: the largest size of each other axis that varies.
        smallest: the smallest size of those that cannot be 1.
        below: for integer inputs, the number that all their values are below.
        within: for float inputs whose numbers are bounded, the smallest and the largest, between which checks draw
            them; of others they draw from N(0, 1).

    Raises:
        ConfigError: two tensors have one name, a first axis is not the batch, or the only one, a varying axis has
            no largest size or a smallest beyond it, an integer input no limit, or a bound is none of a float input.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    largest: dict[str, int] = field(default_factory=dict)
    below: dict[str, int] = field(default_factory=dict)
    smallest: dict[str, int] = field(default_factory=dict)
    within: dict[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for spec in (*self.inputs, *self.outputs):
            if not spec.axes or spec.axes[0] != "batch":
                raise ConfigError(
                    f"'batch' as the first axis of {spec.name!r}",
                    spec.describe_axes(),
                    "let forward() take and return batches",
                )
            if len(spec.axes) == 1:
                raise ConfigError(
                    f"an axis behind the batch of {spec.name!r}, as Triton wants one",
                    spec.describe_axes(),
                    "state ('batch', 1), and let forward() take or return such rows, as y[:, None]",
                )
        names = [spec.name for spec in (*self.inputs, *self.outputs)]
        if len(set(names)) < len(names):
            raise ConfigError("inputs and outputs of different names", str(names), "rename one")
        varying = {axis for spec in (*self.inputs, *self.outputs) for axis in spec.axes[1:] if isinstance(axis, str)}
        if varying != self.largest.keys():
            raise ConfigError(
                f"a largest size for each varying axis {sorted(varying)}",
                str(self.largest),
                "state them in largest, as in largest={'time': 128}",
            )
        if any(not 1 <= size <= self.largest.get(axis, 0) for axis, size in self.smallest.items()):
            raise ConfigError(
                f"smallest sizes from 1 to the largest ones, {self.largest}", str(self.smallest), "correct smallest"
            )
        integers = {spec.name for spec in self.inputs if spec.dtype.startswith(("int", "uint"))}
        if integers != self.below.keys():
            raise ConfigError(
                f"a limit for each integer input {sorted(integers)}",
                str(self.below),
                "state them in below, as in below={'token_ids': 30522}",
            )
        floats = {spec.name for spec in self.inputs if "float" in spec.dtype}
        for name, (least, most) in self.within.items():
            if name not in floats or not -math.inf < least < most < math.inf:
                raise ConfigError(
                    f"two numbers within which a float input lies, of {sorted(floats)}",
                    f"{name!r}: {(least, most)}",
                    "correct within, as in within={'x': (0.0, 1.0)}",
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomModel:
    """What ``model()`` returns.

    Attributes:
        name: of the model everywhere: artefact, Triton.
        module: the trained module, in float32.
        contract: its inputs and outputs.
        details: what clients are to know of it: labels, units; names in lower case, free JSON values.
        example: ``{"inputs": {name: nested lists}, "answer": {name: nested lists}}``, one row each; the server counts
            as ready when it answers it so. What the module itself says is the answer where none is given.

    Raises:
        ConfigError: a value is of another type.
    """

    name: str
    module: nn.Module
    contract: Contract
    details: dict[str, Any] = field(default_factory=dict)
    example: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kinds = {"name": str, "contract": Contract, "details": dict, "example": dict}
        for field_name, kind in kinds.items():
            if not isinstance(value := getattr(self, field_name), kind):
                raise ConfigError(f"{field_name} of a CustomModel, a {kind.__name__}", f"{value!r:.100}", "correct it")
        for name in self.details:
            if not is_detail_name(name):
                expected = "names of details of a CustomModel in lower case: letters, digits and _"
                raise ConfigError(expected, f"{name!r:.100}", "rename it")
