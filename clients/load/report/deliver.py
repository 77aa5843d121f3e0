"""What a run leaves: tables or JSON on the terminal, files where they are asked for, and an exit status."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from clients.load.analysis.slo import Objective
from clients.load.analysis.summary import summarize
from clients.load.record import LoadRun
from clients.load.report.page import run_page, write_page
from clients.load.report.requests_csv import write_requests
from clients.load.report.summary_json import plain
from clients.load.report.terminal import print_report


def deliver(
    run: LoadRun,
    objectives: Sequence[Objective] = (),
    html: Path | None = None,
    csv: Path | None = None,
    as_json: bool = False,
    exploratory: bool = False,
) -> int:
    """Report a run.

    Args:
        run: what was noted.
        objectives: that are to be met.
        html: where the page is written; nowhere if not given.
        csv: where a line a request is written; nowhere if not given.
        as_json: JSON in AIPerf's layout on standard output, in place of tables.
        exploratory: whether an invalid run is printed for a look: its figures are not fit to be quoted.

    Returns:
        The exit status: 0, or 1 if the run is invalid or misses an objective; of an exploratory one 1 if there is
        nothing to look at.

    Raises:
        OutputError: a file cannot be written.
    """
    summary = summarize(run, objectives)
    if html is not None:
        write_page(run_page(summary), html)
    if csv is not None:
        write_requests(run.records, csv)
    if as_json:
        sys.stdout.write(json.dumps(plain(summary), indent=2) + "\n")
    else:
        print_report(summary, exploratory=exploratory)
    if exploratory:
        return 0 if "request_latency" in summary.metrics else 1
    return 0 if summary.validity.valid and summary.met else 1
