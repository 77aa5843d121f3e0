"""How closely two computations of the same numbers must agree, and how to see that a comparison can fail."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

# Values are of the order of 1. float64: a few hundred roundings of 1e-16. float32: the worst of two independent
# libraries against each other is 7e-7, so that 2e-6 leaves room for another order of summation and no more.
TOLERANCES = {torch.float64: 1e-12, torch.float32: 2e-6}
both_precisions = pytest.mark.parametrize("dtype", TOLERANCES, ids=str)


def difference(found: Tensor, wanted: Tensor) -> float:
    """The largest absolute difference; infinite where either is NaN."""
    assert found.shape == wanted.shape
    return (found.detach() - wanted.detach()).abs().nan_to_num(nan=torch.inf).max().item()


def randomised(model: nn.Module, dtype: torch.dtype, seed: int = 0) -> nn.Module:
    """The model in evaluation mode with noise of 0.15 on every parameter, so that no bias is zero and no scale one."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.data += 0.15 * torch.randn(parameter.shape, generator=generator)
    return model.to(dtype).eval().requires_grad_(False)


def parameters_that_do_not_matter(model: nn.Module, compare: Callable[[], float], tolerance: float) -> set[str]:
    """Perturb one parameter after another; the names of those that leave the comparison within its tolerance."""
    blind = set()
    for name, parameter in model.named_parameters():
        original = parameter.data.clone()
        parameter.data *= 1.1
        parameter.data += 0.01
        if compare() <= tolerance:
            blind.add(name)
        parameter.data = original
    return blind
