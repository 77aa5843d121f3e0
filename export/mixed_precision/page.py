"""What became of a file, as one page of HTML that needs nothing but itself."""

import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from attendant.errors import OutputError
from attendant.markup import Markup, bar, code, folded, safe
from attendant.quantities import bytes_text
from export.inspection.page import STYLE
from export.mixed_precision.outcome import KeptNode, Outcome

_MOST_ROWS = 12


def write_page(outcome: Outcome, path: Path) -> None:
    """Write the page.

    Raises:
        OutputError: the file cannot be written.
    """
    try:
        path.write_text(page(outcome), encoding="utf-8")
    except OSError as error:
        raise OutputError(f"a place to write the page at {path}", str(error), "choose another --report") from error


def page(outcome: Outcome) -> str:
    """The page of one conversion."""
    title = safe(f"{Path(outcome.source).name} in {outcome.precision}")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE.read_text(encoding='utf-8')}</style></head><body><main>"
        f"{_header(outcome, title)}{_drift(outcome)}{_operators(outcome)}{_constraints(outcome)}{_foot(outcome)}"
        "</main></body></html>\n"
    )


def drift_text(drift: float) -> str:
    """A drift for people."""
    return f"{drift:.2g} σ" if math.isfinite(drift) else "not finite"


def _header(outcome: Outcome, title: str) -> str:
    before, after = outcome.nbytes
    narrow = sum(outcome.typed.operators.values())
    figures = {
        "drift": drift_text(outcome.worst),
        "budget": drift_text(outcome.budget),
        "drift with nothing kept": drift_text(outcome.typed.found.drift_of_all),
        f"operators in {outcome.precision}": str(narrow),
        "kept in float32": str(len(outcome.typed.kept)),
        "weights before": bytes_text(before),
        "weights after": bytes_text(after),
    }
    tiles = "".join(f"<div><dt>{safe(name)}</dt><dd>{safe(value)}</dd></div>" for name, value in figures.items())
    return (
        f"<header><h1>{title}</h1>"
        f'<p class="quiet">{code(outcome.out)} · for {safe(outcome.target)} · opset {outcome.opset}</p>'
        f'<dl class="figures">{tiles}</dl></header>'
    )


def _drift(outcome: Outcome) -> str:
    ordered = sorted(outcome.drift.items(), key=lambda entry: -entry[1])
    rows = [(code(name), drift_text(drift), bar(min(1.0, drift / outcome.budget), "k0")) for name, drift in ordered]
    caption = (
        "mean difference from float32 in units of the float32 values' standard deviation, worst sample; "
        "outputs, and what TopK, NonMaxSuppression and the like choose by; the bar is the budget"
    )
    listed = folded(caption, ("value", "drift", ""), rows, (1,), _MOST_ROWS)
    return _section("drift", "Drift", f'<div class="card">{listed}</div>')


def _operators(outcome: Outcome) -> str:
    kept = Counter(node.operator for node in outcome.typed.kept)
    names = {**outcome.typed.operators, **kept}
    rows = [(name, outcome.typed.operators.get(name, 0), kept.get(name, 0)) for name in names]
    counts = folded("nodes", ("operator", outcome.precision, "float32"), rows, (1, 2), _MOST_ROWS)
    measured, given = (
        _nodes([node for node in outcome.typed.kept if node.measured is wanted]) for wanted in (True, False)
    )
    cards = (
        f'<div class="card"><h3>Operators</h3>{counts}</div>'
        f'<div class="card"><h3>Kept by measurement</h3>{measured}</div>'
        f'<div class="card wide"><h3>Kept by their type or the target</h3>{given}</div>'
    )
    return _section("kept", "What stays in float32", f'<div class="cards">{cards}</div>')


def _nodes(nodes: Iterable[KeptNode]) -> str:
    rows = [(code(node.name), node.operator, node.reason) for node in nodes]
    return folded("", ("node", "operator", "reason"), rows, (), _MOST_ROWS) if rows else "<p>none</p>"


def _constraints(outcome: Outcome) -> str:
    rows = [
        (check.constraint.name, code(violation.node), violation.found, check.constraint.statement)
        for check in outcome.checks
        for violation in check.violations
    ]
    held = sum(not check.violations for check in outcome.checks)
    note = f"{held} of {len(outcome.checks)} constraints of {outcome.target} hold"
    listed = folded(note, ("constraint", "node", "found", "what must hold"), rows, (), _MOST_ROWS)
    body = listed if rows else f"<p>{safe(note)}.</p>"
    return _section("target", "The target", f'<div class="card">{body}</div>')


def _section(key: str, title: str, body: str) -> Markup:
    return Markup(f'<section aria-labelledby="{key}"><h2 id="{key}">{safe(title)}</h2>{body}</section>')


def _foot(outcome: Outcome) -> str:
    return (
        f"<footer>Made by {code('attendant export precision')} from {code(outcome.source)}. Measured on "
        f"{outcome.samples} inputs, {safe(outcome.feeds)}, in {outcome.typed.found.runs} runs, by ONNX Runtime in "
        "float32 with every rounding of the narrower type; the drift is that of the file that was written."
        "</footer>"
    )
