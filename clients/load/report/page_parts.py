"""Pieces that the pages of load tests share: the frame of a page, the banner, tiles, figures, legends."""

from __future__ import annotations

from pathlib import Path

from attendant.markup import Markup, safe
from clients.load.analysis.validity import Verdict

_HERE = Path(__file__).parent


def page(title: str, body: str, foot: str) -> str:
    """A whole page; style and script lie inside it."""
    style, script = ((_HERE / f"page.{kind}").read_text(encoding="utf-8") for kind in ("css", "js"))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{safe(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<style>{style}</style></head><body><main>{body}<footer>{foot}</footer></main>"
        f"<script>{script}</script></body></html>\n"
    )


def verdict_box(verdict: Verdict) -> Markup:
    """Whether the figures may be quoted, and why not."""
    kind, head = ("valid", "Valid") if verdict.valid else ("invalid", "Invalid: do not quote these figures")
    reasons = "".join(f"<li>{safe(reason.told)}</li>" for reason in verdict.reasons)
    remarks = "".join(f'<li class="quiet">{safe(remark)}</li>' for remark in verdict.remarks)
    sign = "✓" if verdict.valid else "✗"
    told = f"<ul>{reasons}{remarks}</ul>" if reasons or remarks else ""
    every = " No error, no wrong answer, a generator with time to spare, and a steady state." if verdict.valid else ""
    return Markup(f'<div class="verdict {kind}" role="status"><h2>{sign} {head}.{every}</h2>{told}</div>')


def tiles(figures: dict[str, tuple[str, str]]) -> Markup:
    """Headline figures: name → figure, and what stands below it."""
    held = "".join(
        f"<div><dt>{safe(name)}</dt><dd><b>{_with_unit(value)}</b><small>{_unbroken(below)}</small></dd></div>"
        for name, (value, below) in figures.items()
    )
    return Markup(f'<dl class="figures">{held}</dl>')


def figure(title: str, note: str, drawn: Markup, key: str = "", wide: bool = False) -> Markup:
    """A plot with its title, what it shows, and its legend."""
    kind = "card wide" if wide else "card"
    return Markup(
        f'<figure class="{kind}"><h3>{safe(title)}</h3><figcaption>{safe(note)}</figcaption>{key}{drawn}</figure>'
    )


def legend(marks: dict[str, str]) -> Markup:
    """What each line or mark stands for: its class → its name."""
    held = "".join(f"<li>{_sample(kind)}{safe(name)}</li>" for kind, name in marks.items())
    return Markup(f'<ul class="legend">{held}</ul>')


def section(title: str, held: str) -> Markup:
    """A part of the page under its heading."""
    name = title.lower().replace(" ", "-")
    return Markup(
        f'<section aria-labelledby="{safe(name)}"><h2 id="{safe(name)}">{safe(title)}</h2>'
        f'<div class="cards">{held}</div></section>'
    )


def details(told: str, held: Markup) -> Markup:
    """Something behind a line that opens."""
    return Markup(f"<details><summary>{safe(told)}</summary>{held}</details>")


def _unbroken(text: str) -> str:
    # A line may end between figures, and not between a figure and its unit.
    return safe(" · ".join(part.replace(" ", "\u00a0") for part in text.split(" · "))) if " · " in text else safe(text)


def _with_unit(value: str) -> str:
    number, _, unit = value.partition(" ")
    whole = f"{safe(number)} <i>{safe(unit)}</i>" if number[:1].isdigit() or number.startswith("−") else safe(value)
    return str(whole)


def _sample(kind: str) -> str:
    steps = "M9 6h0" if "dots" in kind else "M6 3l6 6m0 -6l-6 6" if "cross" in kind else "M1 6h16"
    name = kind if "dots" in kind or "cross" in kind else f"line {kind}"
    return f'<svg viewBox="0 0 18 12" aria-hidden="true"><path class="{name}" d="{steps}"/></svg>'
