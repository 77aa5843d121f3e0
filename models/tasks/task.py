"""What a task is: how a model's graphs are made, and what a request of ordinary size looks like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from attendant.errors import ConfigError
from models.tasks.graph import TaskGraph


def nothing_to_explain(model: Any) -> tuple[TaskGraph, ...]:
    """Refuse to explain a model.

    Raises:
        ConfigError: always.
    """
    known = "a classifier over patches or windows of an image, or a decoder that attends to a source"
    raise ConfigError(known, type(model).__name__, "leave --explain out")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a model is for.

    Attributes:
        name: as manifests and ``config.pbtxt`` write it.
        graphs: from a module to its graphs, in the order in which a request passes them.
        details: from a configuration to what the server must know beyond the graphs.
        question: from a configuration to arguments of the module's ``forward``, one request of ordinary size, by which
            the work of different models is compared.
        explained: from a module to the graphs to add that show what it attends to; none where the plain ones do.
            Raises ConfigError where there is nothing to show.
    """

    name: str
    graphs: Callable[[Any], tuple[TaskGraph, ...]]
    details: Callable[[Any], dict[str, Any]]
    question: Callable[[Any], tuple[Tensor | None, ...]]
    explained: Callable[[Any], tuple[TaskGraph, ...]] = nothing_to_explain
