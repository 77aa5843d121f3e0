"""Run a scenario: send each request at its time, note what becomes of it, and watch the generator itself."""

from __future__ import annotations

from collections.abc import Callable

from clients.load.record import LoadRun, RequestRecord
from clients.load.scenario import Scenario

OnRecord = Callable[[RequestRecord], None]


async def run_load(scenario: Scenario, on_record: OnRecord | None = None, command: str = "") -> LoadRun:
    """Run a scenario from its first request to the last answer.

    Args:
        scenario: what is sent, when, and to whom.
        on_record: is told of each request as soon as it has ended; it must return at once, for it runs in the
            generator's own event loop.
        command: that began the run, for the report.

    Raises:
        UnreachableError: nothing answers at the address.
        UnknownNameError: the server has no model of that name.
        InputError: the inputs do not fit the model.
    """
    raise NotImplementedError
