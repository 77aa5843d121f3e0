"""How far a graph of each precision may be from the float64 model: budgets, and what is beyond them.

Drift is held to its budget always. First choices, probabilities and right answers are where the questions are real:
random weights and random inputs make every token nearly as probable as the next, and which is first means nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from attendant.errors import ParityError
from export.precision.budget import Budget
from export.precision.precisions import PRECISIONS, precision_named
from export.quality.quality import Quality


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetVerdict:
    """One form of an artefact against one limit.

    Attributes:
        form: as :class:`export.quality.measure.Quality` names it.
        limit: what is limited, and of which output.
        found: what was measured.
        allowed: the limit.
        passed: whether it is within; NaN is not.
    """

    form: str
    limit: str
    found: float
    allowed: float
    passed: bool


BUDGETS: Mapping[str, Budget] = {name: precision.budget for name, precision in PRECISIONS.items()}


def budget_of(precision: str) -> Budget:
    """What a precision may cost.

    Raises:
        ConfigError: there is none of that name.
    """
    return precision_named(precision).budget


def verdicts_of(qualities: Iterable[Quality], budget: Budget) -> list[BudgetVerdict]:
    """Hold every form of an artefact to each limit that applies to it."""
    return [verdict for quality in qualities for verdict in _verdicts(quality, budget)]


def require_budget(verdicts: Iterable[BudgetVerdict], precision: str, report: Path) -> None:
    """Fail unless every limit holds.

    Raises:
        ParityError: one does not; the message names it.
    """
    for verdict in verdicts:
        if not verdict.passed:
            bound = "at least" if verdict.limit.startswith("top-1") else "at most"
            raise ParityError(
                f"{verdict.limit} of the {verdict.form} graph {bound} {verdict.allowed:g}, the budget of {precision}",
                f"{verdict.found:.3g}",
                f"{BUDGETS[precision].remedy}; see {report}",
            )


def _verdicts(quality: Quality, budget: Budget) -> Iterator[BudgetVerdict]:
    def at_most(limit: str, found: float, allowed: float) -> BudgetVerdict:
        return BudgetVerdict(form=quality.form, limit=limit, found=found, allowed=allowed, passed=found <= allowed)

    for output, agreement in quality.agreements.items():
        yield at_most(f"drift of {output}", agreement.drift, budget.drift)
        if quality.real and agreement.kl_mean is not None and agreement.top1 is not None:
            yield at_most(f"KL of {output}", agreement.kl_mean, budget.kl)
            yield BudgetVerdict(
                form=quality.form,
                limit=f"top-1 agreement of {output}",
                found=agreement.top1,
                allowed=budget.top1,
                passed=agreement.top1 >= budget.top1,
            )
    if quality.accuracy is not None:
        yield at_most(f"loss of {quality.accuracy.metric} in points", quality.accuracy.loss, budget.loss)
