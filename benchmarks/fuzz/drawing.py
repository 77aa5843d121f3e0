"""Draws inputs until a budget is spent."""

from collections.abc import Callable
from typing import TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

from benchmarks.fuzz.outcome import Budget

InputT = TypeVar("InputT")
AT_ONCE = 1000
"""Hypothesis keeps what it drew in a run, which would be taken for memory of the target that grows."""


def draw_inputs(
    strategy: SearchStrategy[InputT], budget: Budget, number: int, consume: Callable[[InputT], None]
) -> None:
    """Draw inputs, and hand each on.

    Args:
        strategy: that draws.
        budget: how many, and for how long.
        number: the seed, which draws the same again.
        consume: takes each input.
    """
    drawn = 0

    def take(one: InputT) -> None:
        nonlocal drawn
        if drawn < budget.inputs and not budget.is_over:
            drawn += 1
            consume(one)

    run, before = 0, -1
    while drawn < budget.inputs and not budget.is_over and drawn > before:
        before = drawn
        _draw(strategy, min(AT_ONCE, budget.inputs - drawn), f"{number} {run}", take)
        run += 1


def _draw(strategy: SearchStrategy[InputT], count: int, name: str, take: Callable[[InputT], None]) -> None:
    quiet = settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

    @seed(name)
    @quiet
    @given(strategy)
    def run(one: InputT) -> None:
        take(one)

    run()
