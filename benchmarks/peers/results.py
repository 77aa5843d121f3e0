"""Samples → a dated page and its JSON in benchmarks/results/."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from benchmarks.peers.rounds import Record, quiet

Cells = Callable[[Record], list[str]]


def spread(samples: list[list[float]]) -> tuple[float, float, float]:
    """First quartile, median and third quartile of the quiet samples; of all of them where fewer than two are quiet."""
    seconds = quiet(samples)
    if len(seconds) < 2:
        seconds = [one for one, _ in samples]
    if len(seconds) < 2:
        return seconds[0], seconds[0], seconds[0]
    low, _, high = quantiles(seconds, n=4, method="inclusive")
    return low, median(seconds), high


def milliseconds(samples: list[list[float]]) -> str:
    """Median and quartiles in milliseconds."""
    low, middle, high = (1e3 * one for one in spread(samples))
    return f"{middle:.1f} ({low:.1f} … {high:.1f}){_doubt(samples)}"


def rate(long: list[list[float]], short: list[list[float]], tokens: int) -> str:
    """Tokens per second between two lengths: of the medians, and of the longer one's quartiles."""
    first = spread(short)[1]
    if spread(long)[0] <= first:
        return "too noisy"
    low, middle, high = (tokens / (one - first) for one in reversed(spread(long)))
    return f"{middle:.0f} ({low:.0f} … {high:.0f}){_doubt(long) or _doubt(short)}"


def _doubt(samples: list[list[float]]) -> str:
    return "" if len(quiet(samples)) >= 2 else " ?"


def agreement(record: Record, reference: Record | None) -> str:
    """How far an answer to one fixed question is that of transformers in float32."""
    if reference is None or "answer" not in record or "answer" not in reference:
        return ""
    found, wanted = record["answer"], reference["answer"]
    if isinstance(wanted[0], list):
        same = [a == b for one, other in zip(found, wanted, strict=True) for a, b in zip(one, other, strict=True)]
        return f"{sum(same)} of {len(same)} tokens"
    error = max(abs(a - b) for a, b in zip(found, wanted, strict=True)) / max(map(abs, wanted))
    return f"{error:.0e}"


def write_results(
    page: Path,
    title: str,
    values: Mapping[str, Mapping[str, Record]],
    facts: dict[str, Any],
    heads: list[str],
    cells: Cells,
) -> None:
    """Write a page of tables, and all samples as JSON beside it.

    Args:
        page: the Markdown file.
        title: of the page.
        values: shape → peer → record.
        facts: command, hardware, versions and notes.
        heads: of the columns that ``cells`` fills.
        cells: a record → text.
    """
    lines = [f"# {title}, {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC", "", f"    {facts['command']}", ""]
    lines += [f"- {key}: {value}" for key, value in facts["hardware"].items()]
    for environment, packages in facts["versions"].items():
        lines.append(f"- {environment}: {', '.join(f'{key} {value}' for key, value in packages.items())}")
    lines += ["", *facts["notes"], ""]
    for shape, records in values.items():
        lines += [f"## {shape}", "", *_table(records, heads, cells), ""]
    page.write_text("\n".join(lines), encoding="utf-8")
    raw = {**facts, "samples": values}
    page.with_suffix(".json").write_text(json.dumps(raw) + "\n", encoding="utf-8")


def _table(records: Mapping[str, Record], heads: list[str], cells: Cells) -> list[str]:
    heads = ["peer", *heads, "quiet samples", "peak MB", "load s", "answer as transformers float32"]
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    reference = records.get("transformers float32")
    for name, record in records.items():
        measured = record["samples"].values()
        if "failed" in record or not record["samples"] or not all(measured):
            lines.append(f"| {name} | {record.get('failed', 'not measured in time')} |" + " |" * (len(heads) - 2))
            continue
        calm = f"{min(len(quiet(one)) for one in measured)} … {max(len(one) for one in measured)}"
        more = [calm, f"{record['peak_mb']:.0f}", f"{record['load_s']:.1f}", agreement(record, reference)]
        lines.append(f"| {name} | " + " | ".join([*cells(record), *more]) + " |")
    return lines
