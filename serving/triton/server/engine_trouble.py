"""What is wrong with a generative model's engine, by what it says of its health."""

from attendant.engine_health import EngineHealth
from serving.processes import HANG_S, LONGEST_STEP_S


def trouble_of(health: EngineHealth) -> str:
    """Why the model must be loaded anew; empty if it need not."""
    if not health.alive:
        return "its thread that answers has ended"
    # Its own watch starts an engine anew that hangs.
    if health.hung_s > (2 * LONGEST_STEP_S if health.loading else 2 * HANG_S):
        return f"its engine hangs for {health.hung_s:.0f} s, and is not started anew"
    # By the manifest of its first start: the files may be another artefact's by now.
    return f"its engine cannot be started anew: {health.failure}" if health.loading and health.failure else ""
