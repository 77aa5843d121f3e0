"""A part of the matrix of `make chaos` on the real server: each cell holds what its scenario expects."""

import pytest

from benchmarks.chaos.__main__ import record_rounds
from benchmarks.chaos.checker import check
from benchmarks.chaos.report import failed_cells
from benchmarks.chaos.scenario import MODELS, expand, read_scenarios, read_traffics

TRAFFICS = read_traffics()
ROUNDS = expand(read_scenarios(), list(TRAFFICS), in_tests=True)
PATIENCE = 4.0
CELLS = [cell for one in ROUNDS for cell in one.cells]


@pytest.fixture(scope="module")
def history(exported, tmp_path_factory):
    """What happened in these rounds."""
    artefacts = {name: exported(name) for name in MODELS}
    recorded, skipped, _ = record_rounds(ROUNDS, TRAFFICS, artefacts, tmp_path_factory.mktemp("chaos"), seed=0)
    assert skipped == {}
    return recorded


@pytest.fixture(scope="module")
def cells(history):
    """Cell → what is wrong with it, where a busy machine has more time."""
    for one in history.rounds.values():
        bounds = {"silence_s": 5.0} | {
            name: value for name, value in one.expect.items() if name.endswith("_s") and value
        }
        one.expect |= {name: PATIENCE * value for name, value in bounds.items()}
    return failed_cells(history, check(history))


def test_the_part_has_at_least_24_cells_and_the_matrix_200():
    assert len(CELLS) >= 24
    assert sum(len(one.cells) for one in expand(read_scenarios(), list(TRAFFICS))) >= 200


@pytest.mark.parametrize("cell", CELLS)
def test_a_cell_holds_what_its_scenario_expects(cell, cells):
    assert cells[cell] == []


def test_every_traffic_was_answered_in_every_round(history):
    for one in history.rounds.values():
        answered = {request.traffic for request in one.requests if request.how == "ok"}
        assert answered == set(one.traffics)
