"""What a task is: how a model's graphs are made, and what a request of ordinary size looks like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from models.tasks.graph import TaskGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a model is for.

    Attributes:
        name: as manifests and ``config.pbtxt`` write it.
        graphs: from a module to its graphs, in the order in which a request passes them.
        details: from a configuration to what the server must know beyond the graphs.
        question: from a configuration to arguments of the module's ``forward``, one request of ordinary size, by which
            the work of different models is compared.
    """

    name: str
    graphs: Callable[[Any], tuple[TaskGraph, ...]]
    details: Callable[[Any], dict[str, Any]]
    question: Callable[[Any], tuple[Tensor | None, ...]]
