"""One graph of a model, ready to be exported."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import nn

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
    """

    signature: GraphSignature
    module: nn.Module
    largest: dict[str, int] = field(default_factory=dict)
    smallest: dict[str, int] = field(default_factory=dict)
    below: dict[str, int] = field(default_factory=dict)
