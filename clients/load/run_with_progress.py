"""A run from the command line: its progress is shown, and the command is noted."""

import asyncio
import shlex
import sys

from clients.load.record import LoadRun
from clients.load.report.live import live
from clients.load.run import run_load
from clients.load.scenario import Scenario


def run_with_progress(scenario: Scenario, title: str = "", keep_interrupted: bool = False) -> LoadRun:
    """Run a scenario, and show on standard error how it goes.

    Args:
        scenario: what is sent.
        title: before its progress; the scenario's name if not given.
        keep_interrupted: whether Ctrl-C returns what was measured until then; a second one ends it at once.

    Raises:
        AttendantError: whatever :func:`clients.load.run.run_load` raises.
    """
    lasts_s = None if scenario.duration_s is None else scenario.warmup_s + scenario.duration_s
    with live(title or scenario.name, lasts_s) as note:
        main = sys.modules["__main__"].__spec__
        program = main.name.removesuffix(".__main__") if main is not None else sys.argv[0]
        command = shlex.join(["python", "-m", program, *sys.argv[1:]])
        return asyncio.run(run_load(scenario, note, command, keep_interrupted))
