"""One graph of a model, ready to be exported, and how a model's graphs are made."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from attendant.errors import ConfigError
from attendant.signature import GraphSignature


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskGraph:
    """One graph to export.

    Attributes:
        signature: its tensors.
        module: whose flat inputs and outputs follow the signature.
        largest: the largest size of each varying axis but ``batch``.
        smallest: the smallest size of varying axes that cannot be 1.
        below: for integer inputs whose values are limited, the number that all are below: a vocabulary's size.
        within: for float inputs whose numbers are bounded, the smallest and the largest.
    """

    signature: GraphSignature
    module: nn.Module
    largest: dict[str, int] = field(default_factory=dict)
    smallest: dict[str, int] = field(default_factory=dict)
    below: dict[str, int] = field(default_factory=dict)
    within: dict[str, tuple[float, float]] = field(default_factory=dict)


def nothing_to_explain(model: Any) -> tuple[TaskGraph, ...]:
    """Refuse to explain a model.

    Raises:
        ConfigError: always.
    """
    known = "a classifier over patches or windows of an image, or a model that writes text and attends to what it reads"
    raise ConfigError(known, type(model).__name__, "leave --explain out")


def no_prompts(model: Any) -> TaskGraph:
    """Refuse a graph that reads the prompts of a model.

    Raises:
        ConfigError: always.
    """
    raise ConfigError("a language model, whose prompts are long", type(model).__name__, "leave --prefill out")


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphBuilder:
    """How a model's graphs are made, and what a request of ordinary size looks like.

    Attributes:
        task: what such models are for, one of :data:`attendant.tasks.TASKS`.
        build: from a module to its graphs, in the order in which a request passes them.
        details: from a configuration to what the server must know beyond the graphs.
        typical_inputs: from a configuration to arguments of the module's ``forward``, one request of ordinary size,
            by which the work of different models is compared.
        explained: from a module to the graphs to add that show what it attends to; none where the plain ones do.
            Raises ConfigError where there is nothing to show.
        prefill: from a module to a graph that reads prompts alone. Raises ConfigError where there are none.
    """

    task: str
    build: Callable[[Any], tuple[TaskGraph, ...]]
    details: Callable[[Any], dict[str, Any]]
    typical_inputs: Callable[[Any], tuple[Tensor | None, ...]]
    explained: Callable[[Any], tuple[TaskGraph, ...]] = nothing_to_explain
    prefill: Callable[[Any], TaskGraph] = no_prompts
