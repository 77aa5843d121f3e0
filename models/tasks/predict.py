"""``predict``: tensors → tensors, by a custom module; one graph, ``model``."""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from attendant.custom_model import Contract
from attendant.errors import ConfigError
from attendant.signature import GraphSignature
from models.task_graph import GraphBuilder, TaskGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictorConfig:
    """What a manifest keeps of a module that only its own file can build.

    Attributes:
        module: the class's name.
        below: for integer inputs, the number that all their values are below: the server refuses others.
    """

    module: str
    below: dict[str, int] = field(default_factory=dict)


class ContractModel(nn.Module):
    def __init__(self, module: nn.Module, contract: Contract, below: dict[str, int]) -> None:
        """Name a module's tensors.

        Args:
            module: any.
            contract: its tensors.
            below: the limits of integer inputs that are known, and not assumed.
        """
        super().__init__()
        self.module = module
        self.contract = contract
        self.config = PredictorConfig(module=type(module).__name__, below=below)

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
            smallest=contract.smallest,
            below=contract.below,
            within=contract.within,
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
