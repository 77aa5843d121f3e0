"""The readings of benchmarks/gpu/decoding.py as rows and as a page."""

from __future__ import annotations

import datetime
from typing import Any

Row = dict[str, Any]
LIMIT_SHARE = 0.7
"""Of the bandwidth limit, what a step of one row as it is served is to reach."""


def row(variant: str, batch: int, behind: int, taken_s: float, limit_s: float) -> Row:
    """One line of the table of steps."""
    return {
        "variant": variant,
        "batch": batch,
        "behind": behind,
        "step_ms": taken_s * 1e3,
        "tokens_per_s": batch / taken_s,
        "share_of_limit": limit_s / taken_s,
    }


def page(found: dict[str, Any]) -> str:
    """The readings as Markdown."""
    copies = " and ".join(f"{one:.0f}" for one in found["copy_gb_per_s"])
    lines = [
        f"# Decoding on a GPU, {datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC",
        "",
        f"    {found['command']}",
        "",
        f"- {found['device']}, torch {found['torch']}; a copy moves {copies} GB/s, before and after",
        "",
        "| variant | batch | behind | step ms | tokens/s | share of the bandwidth limit |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for one in found["decoding"]:
        if "missing" in one:
            lines.append(f"| {one['variant']} | not here: {one['missing']} | | | | |")
            continue
        figures = f"{one['step_ms']:.3f} | {one['tokens_per_s']:.0f} | {one['share_of_limit']:.0%}"
        lines.append(f"| {one['variant']} | {one['batch']} | {one['behind']} | {figures} |")
    alone = [one["share_of_limit"] for one in found["decoding"] if one["variant"] == "recorded" and one["batch"] == 1]
    verdict = "reached" if min(alone) >= LIMIT_SHARE else "missed"
    lines += ["", f"At batch 1, recorded, at least {LIMIT_SHARE:.0%} of the limit: {verdict} ({min(alone):.0%})."]
    return "\n".join([*lines, ""])
