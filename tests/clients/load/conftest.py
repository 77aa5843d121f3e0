"""One server of known times and faults for all tests of the generator."""

import asyncio

import pytest

from clients.load.arrivals import ClosedLoop
from clients.load.calibration.known_model import KnownModel, known_server
from clients.load.run import run_load
from clients.load.scenario import Inputs, Scenario, Target, Workload

LINES = 32  # of each kind
LINE_S = 0.25  # so long that what a busy machine adds is little beside it
TOKENS = 4
STALL_AT, STALL_S = 10, 0.6
MODELS = {
    **{f"even-{line}": KnownModel(mean_s=LINE_S) for line in range(LINES)},
    **{f"random-{line}": KnownModel(service="exponential", mean_s=LINE_S, seed=line) for line in range(LINES)},
    "quick": KnownModel(),
    "late": KnownModel(mean_s=LINE_S),
    "silent": KnownModel(mean_s=30.0),
    **{f"stalling-{turn}": KnownModel(stall_at=STALL_AT, stall_s=STALL_S) for turn in range(4)},
    "honest": KnownModel(tokens=TOKENS),
    "slow": KnownModel(tokens=200, step_s=0.01),
    "few": KnownModel(tokens=TOKENS, fault="few"),
    "unfinished": KnownModel(tokens=TOKENS, fault="unfinished"),
    "text": KnownModel(tokens=TOKENS, fault="text"),
}


@pytest.fixture(scope="session")
def known():
    """The address of a server over all these models."""
    with known_server(MODELS) as address:
        yield address


@pytest.fixture
def ran(known):
    """``ran(model, …)``: one workload is run against it; further words are the workload's, or the scenario's."""

    def run(model, on_record=None, target=None, **changes):
        of_scenario = {name: changes.pop(name) for name in list(changes) if name in Scenario.__slots__}
        inputs = (
            Inputs(kind="texts", texts=("a",)) if model in ("honest", "slow", "few", "unfinished", "text")
            else Inputs(kind="zeros")
        )  # fmt: skip
        scenario = Scenario(
            workloads=(Workload(name=model, model=model, **{"inputs": inputs, **changes}),),
            target=Target(address=known, **(target or {})),
            **{"arrivals": ClosedLoop(), "requests": 3, **of_scenario},
        )
        return asyncio.run(run_load(scenario, on_record))

    return run
