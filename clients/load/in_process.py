"""What the same requests take without a server, for the overhead of serving."""

from __future__ import annotations

from clients.load.scenario import Scenario
from clients.load.transport import Prepared


async def in_process_seconds(scenario: Scenario, prepared: list[Prepared]) -> tuple[float, ...]:
    """Seconds of each request."""
    return ()
