"""How what a recurrent decoder remembers is named: its states, which it writes in place, and what it knows of a source.

Legend: B batch, S source positions, H width of a state, C width of an annotation, A width of the alignment network.
"""

from typing import Any, Protocol

from attendant.signature import TensorSpec
from attendant.tensor_names import ALIGNMENT
from models.task_graph import TaskGraph, nothing_to_explain


class RecurrentConfig(Protocol):
    """What the names follow from."""

    @property
    def states(self) -> int:
        """How many tensors the decoder carries from step to step."""

    @property
    def hidden_width(self) -> int: ...

    @property
    def context_width(self) -> int: ...

    @property
    def alignment_width(self) -> int | None:
        """A; none without attention."""


def state_specs(config: RecurrentConfig, suffix: str = "") -> tuple[TensorSpec, ...]:
    """The states ``[B, H]``."""
    axes = ("batch", config.hidden_width)
    return tuple(
        TensorSpec(name=f"state_{number:02d}{suffix}", dtype="float32", axes=axes) for number in range(config.states)
    )


def state_aliases(config: RecurrentConfig) -> dict[str, str]:
    """The outputs that are written into inputs."""
    return {f"{spec.name}_out": f"{spec.name}_in" for spec in state_specs(config)}


def memory_specs(config: RecurrentConfig, positions: int | str) -> tuple[TensorSpec, ...]:
    """The annotations ``[B, S, C]`` and their keys ``[B, S, A]``; without attention one context ``[B, C]``."""
    if config.alignment_width is None:
        return (TensorSpec(name="context", dtype="float32", axes=("batch", config.context_width)),)
    return (
        TensorSpec(name="memory", dtype="float32", axes=("batch", positions, config.context_width)),
        TensorSpec(name="memory_keys", dtype="float32", axes=("batch", positions, config.alignment_width)),
    )


def alignment_specs(config: RecurrentConfig, positions: int | str) -> tuple[TensorSpec, ...]:
    """The weights of one step ``[B, 1, S]``; nothing without attention."""
    if config.alignment_width is None:
        return ()
    return (TensorSpec(name=ALIGNMENT, dtype="float32", axes=("batch", 1, positions)),)


def explained_graphs(model: Any) -> tuple[TaskGraph, ...]:
    """No graph more: the decoder shows its alignment at every step.

    Raises:
        ConfigError: it has no attention.
    """
    return () if model.config.alignment_width is not None else nothing_to_explain(model)
