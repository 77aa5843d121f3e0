"""A plan as a table: what each number of replicas would do, and which is the answer."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

_TIMES = (
    *(("TTFT p50", "time_to_first_token", "p50"), ("p95", "time_to_first_token", "p95")),
    *(("p99", "time_to_first_token", "p99"), ("ITL p95", "inter_token_latency", "p95")),
    ("latency p95", "request_latency", "p95"),
)
_WIDTH = 110


def print_plan(plan: Mapping[str, Any], objectives: Sequence[str]) -> None:
    """Print a plan.

    Args:
        plan: as JSON has it.
        objectives: as they were written.
    """
    console = Console(highlight=False, soft_wrap=False)
    console = console if console.is_terminal else Console(highlight=False, width=_WIDTH)
    saturation = plan["saturation"]
    table = Table(title="One replica under its share; milliseconds", title_justify="left")
    for head in ("replicas", "requests/s", "load", *(head for head, _, _ in _TIMES), "slots", "refused", ""):
        table.add_column(head, justify="right", no_wrap=True)
    for level in plan["levels"]:
        table.add_row(
            str(level["replicas"]),
            f"{level['offered']:.4g}",
            f"{level['offered'] / saturation['requests']:.0%}",
            *(_milliseconds(level.get(metric, {}).get(statistic)) for _, metric, statistic in _TIMES),
            f"{level['running']:.1f}",
            f"{level['refused']:.2%}" if level["refused"] else "none",
            "met" if level["met"] else "missed",
            style="bold" if level["replicas"] == plan["replicas"] else None,
        )
    console.print(table)
    console.print(
        f"{plan['rate']:.4g} requests/s take [bold]{plan['replicas']} replica(s)[/bold] for "
        f"{' and '.join(objectives) or 'every request answered'}; they are {plan['utilization']:.0%} loaded"
    )
    console.print(
        f"a replica saturates at {saturation['requests']:.4g} requests/s, {saturation['tokens']:.4g} tokens/s"
    )
    if plan["gpus"]:
        console.print(f"{plan['gpus']} GPU(s)")
    if plan["price_per_hour"]:
        console.print(f"{plan['price_per_hour']:.2f} an hour, {plan['price_per_month']:.0f} a month of 730 hours")


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{1e3 * seconds:.3g}" if seconds < 1 else f"{1e3 * seconds:.0f}"
