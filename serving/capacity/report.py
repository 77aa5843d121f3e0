"""A plan as a table: what each number of replicas would do, and which is the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

_TIMES = {"TTFT": "time_to_first_token", "ITL": "inter_token_latency", "latency": "request_latency"}
_WIDTH = 110


def print_plan(plan: Mapping[str, Any], objectives: Sequence[str]) -> None:
    """Print a plan.

    Args:
        plan: as JSON has it.
        objectives: as they were written.
    """
    console = Console(highlight=False, soft_wrap=False)
    console = console if console.is_terminal else Console(highlight=False, width=_WIDTH)
    console.print(_levels(plan))
    for line in _answer(plan, objectives):
        console.print(line)


def _levels(plan: Mapping[str, Any]) -> Table:
    table = Table(title="One replica under its share; milliseconds", title_justify="left")
    heads = [
        "replicas",
        "requests/s",
        "load",
        "TTFT p50",
        "p95",
        "p99",
        "ITL p95",
        "latency p95",
        "slots",
        "refused",
        "",
    ]
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for level in plan["levels"]:
        chosen = level["replicas"] == plan["replicas"]
        table.add_row(*_row(level, plan["saturation"]["requests"]), style="bold" if chosen else None)
    return table


def _row(level: Mapping[str, Any], most: float) -> list[str]:
    wanted = (("TTFT", "p50"), ("TTFT", "p95"), ("TTFT", "p99"), ("ITL", "p95"), ("latency", "p95"))
    return [
        str(level["replicas"]),
        f"{level['offered']:.4g}",
        f"{level['offered'] / most:.0%}",
        *(_milliseconds(level.get(_TIMES[metric], {}).get(statistic)) for metric, statistic in wanted),
        f"{level['active']:.1f}",
        f"{level['refused']:.2%}" if level["refused"] else "none",
        "kept" if level["kept"] else "missed",
    ]


def _answer(plan: Mapping[str, Any], objectives: Sequence[str]) -> list[str]:
    saturation = plan["saturation"]
    promised = " and ".join(objectives) or "every request answered"
    lines = [
        f"{plan['rate']:.4g} requests/s take [bold]{plan['replicas']} replica(s)[/bold] for {promised}; they are "
        f"{plan['utilisation']:.0%} loaded",
        f"a replica saturates at {saturation['requests']:.4g} requests/s, {saturation['tokens']:.4g} tokens/s",
    ]
    if plan["gpus"]:
        lines.append(f"{plan['gpus']} GPU(s)")
    if plan["price_per_hour"]:
        lines.append(f"{plan['price_per_hour']:.2f} an hour, {plan['price_per_month']:.0f} a month of 730 hours")
    return lines


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{1e3 * seconds:.3g}" if seconds < 1 else f"{1e3 * seconds:.0f}"
