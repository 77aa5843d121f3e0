"""The verb that runs a load test."""

from pathlib import Path

from tyro.conf import OmitArgPrefixes, Positional

from attendant.cli import INTERRUPTED_STATUS
from clients.load.analysis.slo import parse_objectives
from clients.load.flags import ArrivalFlags, LoadFlags, lay_over
from clients.load.report.deliver import deliver
from clients.load.run_file import require_writable, write_run
from clients.load.run_with_progress import run_with_progress
from clients.tls import Tls

_NO_FLAGS, _NO_ARRIVALS, _NO_TLS = LoadFlags(), ArrivalFlags(), Tls()


def run(
    scenario: Positional[Path | None] = None,
    requests: OmitArgPrefixes[LoadFlags] = _NO_FLAGS,
    arrivals: OmitArgPrefixes[ArrivalFlags] = _NO_ARRIVALS,
    security: OmitArgPrefixes[Tls] = _NO_TLS,
    slo: str = "",
    out: Path | None = None,
    html: Path | None = None,
    csv: Path | None = None,
    json: bool = False,
    exploratory: bool = False,
) -> int:
    """Run one load test, and report it; exit status 1 if it is invalid or misses an objective.

    Ctrl-C ends it early: what was measured until then is reported, with exit status 130.

    Args:
        scenario: a TOML file; flags go before what it says. Without one, --model is needed.
        requests: what is sent, and where to.
        arrivals: when.
        security: TLS towards the server.
        slo: objectives, as ttft_p95<200ms,itl_p95<50ms.
        out: file for the run itself, to report or compare it later.
        html: file for a page with plots.
        csv: file for a line a request.
        json: JSON in the layout of AIPerf, in place of tables.
        exploratory: for a look: figures that are not fit to be quoted are printed with status 0.
    """
    objectives = parse_objectives(slo)
    config = lay_over(scenario, requests, arrivals, security)
    require_writable(out, html, csv, inputs=[scenario, *config.files])
    found = run_with_progress(config, keep_interrupted=True)
    if out is not None:
        write_run(found, out)
    status = deliver(found, objectives, html, csv, json, exploratory)
    return INTERRUPTED_STATUS if found.interrupted else status
