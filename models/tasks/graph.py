"""One graph of a model, ready to be exported."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import nn

from models.signature import GraphSignature


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskGraph:
    """One graph to export.

    Attributes:
        signature: its tensors.
        module: whose flat inputs and outputs follow the signature.
        largest: the largest size of each varying axis but ``batch``.
    """

    signature: GraphSignature
    module: nn.Module
    largest: dict[str, int] = field(default_factory=dict)
