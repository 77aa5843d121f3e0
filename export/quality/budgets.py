"""How far a graph of each precision may be from the float64 model: budgets, and what is beyond them.

Drift is held to its budget always. First choices, probabilities and right answers are where the questions are real:
random weights and random inputs make every token nearly as probable as the next, and which is first means nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from attendant.config import require
from attendant.errors import ParityError
from export.quality.measure import Quality


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a precision may cost.

    Attributes:
        drift: at most, of the worst step: mean difference in units of the spread of the reference's values.
        kl: at most, the mean of all tokens, in nats.
        top1: at least, the share of the tokens with the reference's first choice.
        loss: at most, right answers fewer than the reference has, in points of a hundred.
        why: a sentence.
        remedy: what to do beyond it.

    Raises:
        ConfigError: one is out of its range.
    """

    drift: float
    kl: float
    top1: float
    loss: float
    why: str
    remedy: str

    def __post_init__(self) -> None:
        for name in ("drift", "kl", "loss"):
            require(
                getattr(self, name) > 0, f"a positive {name}", getattr(self, name), "correct export/quality/budgets.py"
            )
        require(0 < self.top1 <= 1, "a share of first choices", self.top1, "correct export/quality/budgets.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One form of an artefact against one limit.

    Attributes:
        form: ``served`` or ``standard``.
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


_MORE_EXACT = "where more is lost than the task can bear, export in a more exact precision:"
BUDGETS: Mapping[str, Budget] = {
    "fp32": Budget(
        drift=1e-4,
        kl=1e-6,
        top1=0.999,
        loss=0.1,
        why="The same numbers added in another order; what is beyond is no rounding.",
        remedy="suspect the weights first and the runtime second, and export again",
    ),
    "fp16": Budget(
        drift=0.005,
        kl=1e-5,
        top1=0.995,
        loss=0.3,
        why="11 bits of every number: one first choice in thousands stands so near to another that it changes.",
        remedy=f"{_MORE_EXACT} fp32; values beyond 65504 are what fp16 cannot hold, and bf16 can",
    ),
    "bf16": Budget(
        drift=0.04,
        kl=0.0005,
        top1=0.97,
        loss=0.6,
        why="8 bits of every number, sums and sensitive places in fp32.",
        remedy=f"{_MORE_EXACT} fp16 or fp32",
    ),
    "int8": Budget(
        drift=0.05,
        kl=0.003,
        top1=0.95,
        loss=0.6,
        why="About twice what the most sensitive shipped checkpoint loses; 0.6 points are two of 360 images.",
        remedy=f"{_MORE_EXACT} fp16 or fp32",
    ),
    "int8-static": Budget(
        drift=0.1,
        kl=0.02,
        top1=0.9,
        loss=1.0,
        why="One scale for all rows of an activation, chosen beforehand: it fits none of them as well as its own.",
        remedy=f"{_MORE_EXACT} int8; or calibrate with inputs that are more like those that it is asked",
    ),
    "int4": Budget(
        drift=0.3,
        kl=0.1,
        top1=0.75,
        loss=1.5,
        why="About twice what the most sensitive shipped checkpoint loses: of a text, one first choice in seven.",
        remedy=f"{_MORE_EXACT} int4-hqq or int8",
    ),
    "int4-hqq": Budget(
        drift=0.3,
        kl=0.08,
        top1=0.75,
        loss=1.5,
        why="As int4, with nearer probabilities, by a zero point and a scale for 64 weights.",
        remedy=f"{_MORE_EXACT} int8",
    ),
    "int4-kv8": Budget(
        drift=0.3,
        kl=0.1,
        top1=0.75,
        loss=1.5,
        why="As int4: what 8 bits of keys and values lose is little beside 4 bits of weights.",
        remedy=f"{_MORE_EXACT} int4 or int8; or calibrate with texts that are more like those that it is asked",
    ),
}


def budget_of(precision: str) -> Budget:
    """What a precision may cost.

    Raises:
        ConfigError: nobody has said so.
    """
    require(precision in BUDGETS, f"a precision with a budget, one of {list(BUDGETS)}", repr(precision), "state one")
    return BUDGETS[precision]


def verdicts_of(qualities: Iterable[Quality], budget: Budget) -> list[Verdict]:
    """Hold every form of an artefact to each limit that applies to it."""
    return [verdict for quality in qualities for verdict in _verdicts(quality, budget)]


def require_budget(verdicts: Iterable[Verdict], precision: str, report: Path) -> None:
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


def _verdicts(quality: Quality, budget: Budget) -> Iterator[Verdict]:
    def at_most(limit: str, found: float, allowed: float) -> Verdict:
        return Verdict(form=quality.form, limit=limit, found=found, allowed=allowed, passed=found <= allowed)

    for output, agreement in quality.agreements.items():
        yield at_most(f"drift of {output}", agreement.drift, budget.drift)
        if quality.real and agreement.kl_mean is not None and agreement.top1 is not None:
            yield at_most(f"KL of {output}", agreement.kl_mean, budget.kl)
            yield _at_least(quality.form, f"top-1 agreement of {output}", agreement.top1, budget.top1)
    if quality.accuracy is not None:
        yield at_most(f"loss of {quality.accuracy.metric} in points", quality.accuracy.loss, budget.loss)


def _at_least(form: str, limit: str, found: float, allowed: float) -> Verdict:
    return Verdict(form=form, limit=limit, found=found, allowed=allowed, passed=found >= allowed)
