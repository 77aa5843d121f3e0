"""What is done with runs and scenarios: reported again, swept over levels, compared, exported."""

import json as json_format
import math
import sys
from functools import partial
from pathlib import Path

from tyro.conf import OmitArgPrefixes, Positional

from attendant.cli import INTERRUPTED_STATUS
from attendant.errors import ConfigError
from clients.load.analysis.comparison import compare as compare_runs
from clients.load.analysis.comparison import differences
from clients.load.analysis.slo import parse_objectives
from clients.load.analysis.summary import summarize
from clients.load.flags import LoadFlags, lay_over
from clients.load.report.comparison_terminal import comparison_json, print_comparison
from clients.load.report.deliver import deliver
from clients.load.report.page import sweep_page, write_page
from clients.load.report.sweep_rows import sweep_json
from clients.load.report.sweep_terminal import print_sweep
from clients.load.run_file import read_run, require_writable
from clients.load.run_with_progress import run_with_progress
from clients.load.sweep import SweptLoad, level_file
from clients.load.sweep import sweep as run_sweep
from clients.tls import Tls

_NO_FLAGS, _NO_TLS = LoadFlags(), Tls()


def report(
    run: Positional[Path],
    slo: str = "",
    html: Path | None = None,
    csv: Path | None = None,
    json: bool = False,
    exploratory: bool = False,
) -> int:
    """Report a run again; exit status 1 if it is invalid or misses an objective.

    Args:
        run: the file that `load run --out` wrote.
        slo: objectives, as ttft_p95<200ms,itl_p95<50ms.
        html: file for a page with plots.
        csv: file for a line a request.
        json: JSON in the layout of AIPerf, in place of tables.
        exploratory: for a look: figures that are not fit to be quoted are printed with status 0.
    """
    require_writable(html, csv, inputs=[run])
    return deliver(read_run(run), parse_objectives(slo), html, csv, json, exploratory)


def sweep(
    scenario: Positional[Path | None] = None,
    rates: tuple[float, ...] = (),
    concurrency: tuple[int, ...] = (),
    requests: OmitArgPrefixes[LoadFlags] = _NO_FLAGS,
    security: OmitArgPrefixes[Tls] = _NO_TLS,
    slo: str = "",
    runs: int = 6,
    out: Path | None = None,
    html: Path | None = None,
    json: bool = False,
    exploratory: bool = False,
) -> int:
    """Run a scenario at several loads; with --slo, find the highest that keeps it. Exit status 1 if none does.

    Ctrl-C ends it early: the levels that were measured until then are printed, with exit status 130.

    Args:
        scenario: a TOML file, whose arrivals are replaced by each level; flags go before what it says. Without one,
            --model is needed.
        rates: requests a second, of an open loop.
        concurrency: requests at once, of a closed loop.
        requests: what is sent, and where to.
        security: TLS towards the server.
        slo: objectives, as ttft_p95<200ms,itl_p95<50ms; levels rise until one fails, then the gap is halved.
        runs: at most so many between the given levels.
        out: folder for the runs.
        html: file for a page with the curves.
        json: JSON in place of a table.
        exploratory: for a look: exit status 0, whatever was found.
    """
    if bool(rates) == bool(concurrency):
        raise ConfigError("--rates or --concurrency", "both" if rates else "neither", "give one of them")
    if min([*rates, *concurrency]) <= 0:
        raise ConfigError("levels above 0", str(min([*rates, *concurrency])), "correct it")
    load: SweptLoad = "rate" if rates else "concurrency"
    levels = rates or tuple(map(float, concurrency))
    objectives, config = parse_objectives(slo), lay_over(scenario, requests, tls=security)
    files = set() if out is None else {level_file(out, load, level) for level in levels}
    require_writable(html, *files, inputs=[scenario, *config.files])
    found = run_sweep(config, load, levels, partial(run_with_progress, keep_interrupted=True), objectives, runs, out)
    if html is not None:
        write_page(sweep_page(found, load), html)
    if json:
        sys.stdout.write(json_format.dumps(sweep_json(found, load, bool(objectives)), indent=2) + "\n")
    else:
        print_sweep(found, load, bool(objectives))
    if found.interrupted:
        return INTERRUPTED_STATUS
    return 1 if objectives and found.highest is None and not exploratory else 0


def compare(first: Positional[Path], second: Positional[Path], tolerance: float = 0.05, json: bool = False) -> int:
    """Compare two runs; exit status 1 if the second is surely worse, 2 if a run is invalid.

    Args:
        first: the file of a run, the baseline.
        second: the file of another.
        tolerance: what may be lost, as a share: 0.05 is 5 %.
        json: JSON in place of a table.
    """
    if not 0 <= tolerance < math.inf:
        raise ConfigError("a finite tolerance of at least 0", str(tolerance), "give a share, as 0.05")
    summaries = [summarize(read_run(path)) for path in (first, second)]
    found = compare_runs(*summaries)
    apart = differences(*(summary.run.scenario for summary in summaries))
    if json:
        sys.stdout.write(json_format.dumps(comparison_json(found, tolerance, apart), indent=2) + "\n")
    else:
        print_comparison(found, tolerance, apart)
    return 1 if any(one.worse(tolerance) for one in found) else 0
