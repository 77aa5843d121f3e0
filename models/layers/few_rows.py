"""Products of a step, which has so few rows that reading the weights is all the work: each with what is around it.

A block that is :class:`Stepping` hands its norms, gates and residuals to the product beside them, where somebody has a
kernel for that.

Legend: B batch, S positions, E numbers of a row, F columns of a product.
"""

from typing import Protocol

from torch import Tensor, nn

from models.layers.joined import JoinedLinear


class FewRows(Protocol):
    """What multiplies a few rows."""

    def takes(self, hidden: Tensor) -> bool:
        """Whether it multiplies rows like ``[B, S, E]``, of that many and that type."""

    def multiply(
        self,
        inputs: Tensor,
        linear: JoinedLinear | nn.Linear,
        norm: nn.Module | None = None,
        residual: Tensor | None = None,
        gated: bool = False,
    ) -> Tensor:
        """``[B, S, E]``, normed if there is a norm, to ``[B, S, F]``.

        A gated product is SiLU of the first half of its columns, times the second; another may be added to a residual.
        """


class Stepping(nn.Module):
    """A block that can leave its products to what multiplies few rows.

    Attributes:
        few_rows: what that is, if there is such a thing.
    """

    few_rows: FewRows | None = None


def step_by(module: nn.Module, few_rows: FewRows | None) -> None:
    """Let every such block inside a module, whose projections are joined, leave its products to ``few_rows``."""
    for part in module.modules():
        if isinstance(part, Stepping):
            part.few_rows = few_rows
