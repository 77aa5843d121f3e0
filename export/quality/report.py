"""What is left of a model in an artefact, for programs and as a table for people."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from export.quality.agreement import Agreement
from export.quality.budgets import BudgetVerdict, budget_of
from export.quality.quality import Quality, Right

COLUMNS = ("graph", "drift, worst step", "KL mean, max", "top-1", "greedy prefix", "right answers (reference)")
_REAL = "σ: spread of the reference's values. KL in nats a token. Prefix in tokens of all greedy answers."
_RANDOM = "Random inputs: the budget of the drift holds; first choices and probabilities are shown, and mean little."


def quality_to_json(precision: str, qualities: Iterable[Quality], verdicts: Iterable[BudgetVerdict]) -> dict[str, Any]:
    """All that was measured, each step of a decode too, and each limit; ``null`` for what is not finite."""
    value = {
        "precision": precision,
        "reference": "eager float64",
        "budget": asdict(budget_of(precision)),
        "verdicts": [asdict(verdict) for verdict in verdicts],
        "forms": [_form_to_json(quality) for quality in qualities],
    }
    finite: dict[str, Any] = _finite(value)
    return finite


def print_quality(name: str, precision: str, qualities: Sequence[Quality], verdicts: Sequence[BudgetVerdict]) -> None:
    """Print one line a form of the artefact and output, and which budgets it is beyond."""
    asked = ", ".join(dict.fromkeys(quality.questions for quality in qualities))
    table = Table(
        title=f"{name} in {precision} against eager float64: {asked}",
        caption=_REAL if all(quality.real for quality in qualities) else _RANDOM,
    )
    for column in (*COLUMNS, "verdict"):
        table.add_column(column, justify="left" if column in ("graph", "verdict") else "right")
    for quality in qualities:
        beyond = [verdict.limit for verdict in verdicts if verdict.form == quality.form and not verdict.passed]
        told = f"[red]BEYOND[/] {', '.join(beyond)}" if beyond else "[green]within[/]"
        for cells in cells_of(quality):
            table.add_row(*cells, told)
    console = Console()
    console.width = max(console.width, 140)
    console.print(table)


def cells_of(quality: Quality) -> list[tuple[str, ...]]:
    """The cells under :data:`COLUMNS`, a row for each output."""
    rows: list[tuple[str, ...]] = []
    for output, agreement in quality.agreements.items():
        graph = quality.form if len(quality.agreements) == 1 else f"{quality.form}, {output}"
        prefix = quality.prefix
        known = f"{prefix.common} of {prefix.whole}" if prefix else "—", _right_text(quality.accuracy)
        rows.append((graph, f"{agreement.drift:.2g} σ", *_probabilities(agreement), *known))
    return rows


def _probabilities(agreement: Agreement) -> tuple[str, str]:
    if agreement.kl_mean is None or agreement.top1 is None:
        return "—", f"cosine {agreement.cosine:.5f}"
    return f"{_nats(agreement.kl_mean)}, {_nats(agreement.kl_largest or 0.0)}", f"{100 * agreement.top1:.2f} %"


def _nats(value: float) -> str:
    return f"{value:.2g}" if not value < 1e-9 else "< 1e-9"


def _right_text(right: Right | None) -> str:
    if right is None:
        return "—"
    shares = f"{100 * right.share:.2f} % ({100 * right.reference:.2f} %)"
    if right.perplexity is None:
        return shares
    return f"{shares}, perplexity {right.perplexity:.2f} ({right.reference_perplexity:.2f})"


def _form_to_json(quality: Quality) -> dict[str, Any]:
    value = asdict(quality)
    for name, agreement in quality.agreements.items():
        steps = [{**asdict(step), "drift": step.drift} for step in agreement.steps]
        value["agreements"][name] = {"drift": agreement.drift, **value["agreements"][name], "steps": steps}
    if quality.accuracy is not None:
        value["accuracy"]["loss"] = quality.accuracy.loss
    return value


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
