"""What an architecture is to the rest of the house."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from torch import nn

from attendant.tasks import TASKS, Task
from models.task_graph import GraphBuilder


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One architecture; a file in this folder that has one as ``FAMILY`` is registered by it.

    Attributes:
        name: as configurations and manifests write it.
        graphs: the module of :mod:`models.tasks` that makes its graphs.
        config: the configuration class.
        build: from a configuration to a module with random weights.
    """

    name: str
    graphs: str
    config: type[Any]
    build: Callable[[Any], nn.Module]

    @property
    def graph_builder(self) -> GraphBuilder:
        builder: GraphBuilder = import_module(f"models.tasks.{self.graphs}").GRAPHS
        return builder

    @property
    def task(self) -> Task:
        return TASKS[self.graph_builder.task]
