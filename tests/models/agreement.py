"""How closely two computations of the same numbers must agree, and how to see that a comparison can fail."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from export.parity.parity import SAFETY
from tests.models.float64_oracles import oracle_precision

# Values are of the order of 1: some hundred roundings of 1e-16 in float64, on any processor.
EXACT = 1e-12
SEEN = 1e6 * EXACT  # a change that no rounding makes
DTYPES = (torch.float64, torch.float32)
both_precisions = pytest.mark.parametrize("dtype", DTYPES, ids=str)
_EPSILON = torch.finfo(torch.float32).eps
Pairs = Iterator[tuple[Tensor, Tensor]]
Run = Callable[[nn.Module], Tensor]


def difference(found: Tensor, wanted: Tensor) -> float:
    """The largest absolute difference; infinite where either is NaN."""
    assert found.shape == wanted.shape
    return (found.detach() - wanted.detach()).abs().nan_to_num(nan=torch.inf).max().item()


def rounding_tolerance(rounded: Tensor, exact: Tensor) -> float:
    """How far anything in float32 may be from the float64 answer: as the parity checks have it, and nothing chosen.

    That is ``SAFETY`` times the error that the reference itself makes in float32. Another library, or another
    processor, adds the same numbers in another order, so its error is of that size; none is smaller than one rounding
    of the largest value.

    Args:
        rounded: the reference's answer in float32.
        exact: its answer to the same inputs in float64.
    """
    scale = exact.abs().max().item()
    error = difference(rounded, exact)
    assert error <= _EPSILON**0.5 * scale, f"float32 and float64 differ by {error}: they were asked different things"
    return SAFETY * max(error, _EPSILON * scale)


def assert_rounded(found: ArrayLike, rounded: ArrayLike, exact: ArrayLike) -> None:
    """Ours is as near to the reference's float64 answer as the reference itself in float32; arrays or tensors."""
    ours, theirs, wanted = (torch.as_tensor(one) for one in (found, rounded, exact))
    assert difference(ours, wanted) <= rounding_tolerance(theirs, wanted)


def agrees_in_both_precisions(compare: Callable[..., Pairs]) -> Callable[..., None]:
    """Turn a comparison into a test of float64 and of float32.

    In float64 the two answers are the same but for :data:`EXACT`; in float32 ours is within
    :func:`rounding_tolerance` of the reference's float64 answer.

    Args:
        compare: takes ``dtype`` among its arguments, and yields pairs: our answer, and that of a reference. Its inputs
            must be the same numbers in both types: drawn in one, and converted.
    """

    @both_precisions
    @functools.wraps(compare)
    def test(dtype: torch.dtype, **arguments: Any) -> None:
        exact_pairs = _pairs(compare, dtype=torch.float64, **arguments)
        if dtype == torch.float64:
            assert max(difference(*pair) for pair in exact_pairs) <= EXACT
            return
        pairs = _pairs(compare, dtype=dtype, **arguments)
        for (found, rounded), (_, exact) in zip(pairs, exact_pairs, strict=True):
            assert_rounded(found, rounded, exact)

    return test


def _pairs(compare: Callable[..., Pairs], **arguments: Any) -> list[tuple[Tensor, Tensor]]:
    torch.manual_seed(0)  # new layers draw from here, in float32 whatever they become
    pairs = list(compare(**arguments))
    assert pairs, "nothing was compared"
    return pairs


def compare_models(
    ours: nn.Module, run_ours: Run, theirs: nn.Module, run_theirs: Run, dtype: torch.dtype
) -> tuple[Callable[[], float], float]:
    """What measures how far our answer now is from the reference's in float64, and how far it may be.

    Args:
        ours: a model in float32; it becomes one of ``dtype``.
        run_ours: its answer, to inputs of the model's own type.
        theirs: the reference in float32; it becomes one in float64.
        run_theirs: its answer.
        dtype: the precision of ours.
    """
    with torch.no_grad():
        rounded = run_theirs(theirs)
        with oracle_precision(torch.float64):
            exact = run_theirs(theirs.double())
    ours.to(dtype).requires_grad_(False)
    return lambda: difference(run_ours(ours), exact), (
        EXACT if dtype == torch.float64 else rounding_tolerance(rounded, exact)
    )


def randomised(model: nn.Module, dtype: torch.dtype, seed: int = 0) -> nn.Module:
    """The model in evaluation mode with noise of 0.15 on every parameter, so that no bias is zero and no scale one."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.data += 0.15 * torch.randn(parameter.shape, generator=generator)
    return model.to(dtype).eval().requires_grad_(False)


def parameters_that_do_not_matter(model: nn.Module, compare: Callable[[], float], tolerance: float = SEEN) -> set[str]:
    """Perturb one parameter after another; the names of those that leave the comparison within its tolerance.

    Each number gets noise of its own: what changes all alike, a normalisation takes away again.
    """
    blind, generator = set(), torch.Generator().manual_seed(2)
    for name, parameter in model.named_parameters():
        original = parameter.data
        parameter.data = original + 0.1 * torch.randn(original.shape, generator=generator).to(original)
        if compare() <= tolerance:
            blind.add(name)
        parameter.data = original
    return blind
