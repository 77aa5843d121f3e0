"""Faults as data: every scenario can be read, names what there is, and the matrix is as large as it claims."""

import random
import re

import pytest

from benchmarks.chaos.bad_clients import BadClients
from benchmarks.chaos.contract import PAGE, with_promises
from benchmarks.chaos.scenario import MODEL_OF, MODELS, expand, read_scenarios, read_traffics
from benchmarks.chaos.soak import combine, draw_round
from tests.benchmarks.chaos.lies import LIES
from tests.conftest import ROOT

SCENARIOS, TRAFFICS = read_scenarios(), read_traffics()
every_scenario = pytest.mark.parametrize("name", SCENARIOS)


@every_scenario
def test_a_scenario_names_targets_traffics_and_clients_that_there_are(name):
    one = SCENARIOS[name]
    assert (
        set(one.targets) <= {"", *MODELS}
        and set(one.traffics) <= set(TRAFFICS)
        and set(one.in_tests) <= set(one.targets)
    )
    assert one.faults or one.start.change
    for action in one.faults:
        assert action.do != "clients" or hasattr(BadClients, action.kind.replace("-", "_"))
        assert action.model in ("", *MODELS)


@every_scenario
def test_a_scenario_expects_something(name):
    expect = SCENARIOS[name].expect
    assert expect.back_s or expect.exit_s or expect.missing


def test_the_matrix_has_at_least_200_cells_and_no_cell_twice():
    cells = [cell for one in expand(SCENARIOS, list(TRAFFICS)) for cell in one.cells]
    assert len(cells) == len(set(cells)) >= 200


def test_traffics_ask_every_model_by_both_transports():
    for via in ("grpc", "gateway"):
        kinds = {kind for one in TRAFFICS.values() if one.via == via for kind in one.kinds}
        assert {MODEL_OF[kind] for kind in kinds} == set(MODELS)


def test_what_ends_a_server_comes_after_what_leaves_it_standing():
    kinds = [(one.own_server, one.ends_server) for one in expand(SCENARIOS, list(TRAFFICS))]
    assert kinds == sorted(kinds)


def test_a_key_that_no_scenario_has_is_refused_by_the_name_of_its_file(tmp_path):
    (tmp_path / "wrong.toml").write_text('summary = "a"\nspeed = 3\n[expect]\n')
    with pytest.raises(ValueError, match=r"wrong\.toml.*speed"):
        read_scenarios(tmp_path)


def test_the_same_seed_draws_the_same_soak():
    rounds = expand(SCENARIOS, list(TRAFFICS))

    def draw(seed):
        rng = random.Random(seed)  # noqa: S311
        return [draw_round(rounds, TRAFFICS, rng) for _ in range(200)]

    assert draw(3) == draw(3) != draw(4)
    assert {one.ends_server for one in draw(3)} == {True, False}
    assert any("+" in one.name for one in draw(3))
    for one in draw(3):
        assert not one.target or any(one.target in TRAFFICS[name].models for name in one.traffics), one.label


def test_of_two_faults_at_once_all_that_either_allows_is_allowed():
    both = combine(SCENARIOS["worker-killed"], SCENARIOS["clients-flood"])
    assert both.faults == (*SCENARIOS["worker-killed"].faults, *SCENARIOS["clients-flood"].faults)
    assert both.expect.back_s == SCENARIOS["worker-killed"].expect.back_s + SCENARIOS["clients-flood"].expect.back_s
    assert both.expect.silence_s == SCENARIOS["clients-flood"].expect.silence_s
    assert not both.expect.same_processes and both.expect.others_failed == 0
    assert combine(SCENARIOS["stub-killed"], SCENARIOS["clients-flood"]).expect.others_failed == 1000
    assert combine(SCENARIOS["worker-killed"], SCENARIOS["worker-killed"], "stdlib-lm").expect.others_failed is None


def test_of_two_faults_at_once_each_has_its_own_target():
    rounds = expand(SCENARIOS, list(TRAFFICS))
    rng = random.Random(0)  # noqa: S311
    doubles = [one for one in (draw_round(rounds, TRAFFICS, rng) for _ in range(2000)) if "+" in one.name]
    targeted = [one for one in doubles if one.name.endswith("+worker-killed-beside-bad-clients")]
    assert targeted and all(one.scenario.faults[-1].model == "stdlib-lm" for one in targeted)


def test_make_has_a_target_for_each():
    makefile = (ROOT / "Makefile").read_text()
    for target, module in (
        ("chaos", "benchmarks.chaos "),
        ("soak", "benchmarks.chaos.soak "),
        ("fuzz", "benchmarks.fuzz "),
    ):
        assert f"\n{target}: " in makefile and f"python -m {module}" in makefile


def test_the_contract_is_that_of_the_scenarios():
    page = PAGE.read_text()
    assert with_promises(page, SCENARIOS) == page, "run python -m benchmarks.chaos.contract"
    assert page.count("\n| `") >= len(SCENARIOS)


def test_the_track_record_names_scenarios_and_rules_that_there_are():
    record = PAGE.read_text().partition("## Track record")[2]
    rows = [line.split("|")[4] for line in record.splitlines() if line.startswith("| 20")]
    names = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    assert {name for name in names if "/" not in name and " " not in name} <= set(SCENARIOS)
    assert {name for row in rows for name in re.findall(r'rule "([^"]+)"', row)} <= {rule for _, rule in LIES.values()}


@pytest.mark.parametrize("names", [("stub-killed", "clients-flood"), ("clients-flood", "stub-killed")])
def test_what_one_of_two_faults_lets_be_silent_may_be(names):
    assert combine(*(SCENARIOS[name] for name in names)).expect.bare_may_be_silent
