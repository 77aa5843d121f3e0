"""``predict``: tensors → tensors, by a custom module; one graph, ``model``."""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from attendant.errors import ConfigError
from attendant.signature import GraphSignature, TensorSpec
from models.task_graph import GraphBuilder, TaskGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictorConfig:
    """What a manifest keeps of a module that only its own file can build.

    Attributes:
        module: the class's name.
    """

    module: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """What goes into a module and what comes out.

    Attributes:
        inputs: in the order of the parameters of ``forward``; the first axis of each is ``batch``.
        outputs: in the order in which ``forward`` returns them; the first axis of each is ``batch``.
        largest: the largest size of each other axis that varies.
        below: for integer inputs, the number that all their values are below.

    Raises:
        ConfigError: a first axis is not the batch, a varying axis has no largest size, or an integer input no limit.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    largest: dict[str, int] = field(default_factory=dict)
    below: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for spec in (*self.inputs, *self.outputs):
            if not spec.axes or spec.axes[0] != "batch":
                raise ConfigError(
                    f"'batch' as the first axis of {spec.name!r}",
                    spec.describe_axes(),
                    "let forward() take and return batches",
                )
        varying = {axis for spec in (*self.inputs, *self.outputs) for axis in spec.axes[1:] if isinstance(axis, str)}
        if varying != self.largest.keys():
            raise ConfigError(
                f"a largest size for each varying axis {sorted(varying)}",
                str(self.largest),
                "state them in largest, as in largest={'time': 128}",
            )
        integers = {spec.name for spec in self.inputs if spec.dtype.startswith(("int", "uint"))}
        if integers != self.below.keys():
            raise ConfigError(
                f"a limit for each integer input {sorted(integers)}",
                str(self.below),
                "state them in below, as in below={'token_ids': 30522}",
            )


class ContractModel(nn.Module):
    def __init__(self, module: nn.Module, contract: Contract) -> None:
        super().__init__()
        self.module = module
        self.contract = contract
        self.config = PredictorConfig(module=type(module).__name__)

    def forward(self, *tensors: Tensor) -> Any:
        """Whatever the module makes of its inputs."""
        return self.module(*tensors)


def graphs(model: ContractModel) -> tuple[TaskGraph, ...]:
    """The one graph of a module."""
    contract = model.contract
    return (
        TaskGraph(
            signature=GraphSignature(name="model", inputs=contract.inputs, outputs=contract.outputs),
            module=model.module,
            largest=contract.largest,
            below=contract.below,
        ),
    )


def details(config: PredictorConfig) -> dict[str, Any]:
    return {}


def typical_inputs(config: PredictorConfig) -> tuple[Tensor, ...]:
    """A name says nothing of the tensors, so there is none.

    Raises:
        ConfigError: always.
    """
    raise ConfigError("a preset, to count its work", f"the module {config.module}", "count it in its own file")


GRAPHS = GraphBuilder(task="predict", build=graphs, details=details, typical_inputs=typical_inputs)
