"""A profile is measured of any model that writes: runs, engine, and what serving adds."""

import pytest

from attendant.errors import UserError
from attendant.manifest import Manifest
from clients.load.arrivals import ClosedLoop
from clients.load.record import RequestOutcome
from serving.capacity.demand import Demand
from serving.capacity.lengths import ConstantLength
from serving.capacity.levels import Levels
from serving.capacity.profile import ReplicaProfile, ServerOverhead
from serving.capacity.profiling import overhead, timing
from serving.capacity.profiling import server as server_profiling
from serving.capacity.profiling.inputs import load_model
from serving.capacity.profiling.measure import measure_profile
from serving.capacity.profiling.requests import send_load, write_inputs
from serving.engine.settings import EngineSettings
from tests.conftest import LANGUAGE_MODEL

pytestmark = pytest.mark.slow

SETTINGS = EngineSettings(max_num_seqs=2, max_prefill_tokens=8, prefix_cache_bytes=0)


@pytest.fixture(autouse=True)
def _hasty(monkeypatch):
    monkeypatch.setattr(timing, "_MOST_CALLS", 1)
    monkeypatch.setattr(timing.measure_medians, "__defaults__", (1,))
    monkeypatch.setattr(timing, "_LEAST_CALLS", 1)
    monkeypatch.setattr(overhead, "_ROUNDS", 2)
    hasty = {"ROUNDS": 1, "CLOSED_S": 0.5, "POISSON_S": 1.5, "WARM_UP_S": 0.2, "_INPUTS": 8, "SIMULATED": 300}
    for name, value in hasty.items():
        monkeypatch.setattr(server_profiling, name, value)


@pytest.mark.parametrize("artefact", ["language_model", "dates_artefact", "captioner_artefact"])
def test_a_profile_of_any_family_can_be_planned_with(artefact, request, tmp_path):
    folder = request.getfixturevalue(artefact)
    made = measure_profile(folder, SETTINGS, served=False)
    assert made.fingerprint == Manifest.read(folder).fingerprint
    made.write(tmp_path / "profile.json")
    read = ReplicaProfile.read(tmp_path / "profile.json")
    assert read == made and made.served == ServerOverhead()
    assert (made.encoder is None) == (artefact == "language_model") != (made.prompt is None)
    assert made.decode.sizes == (1, 2) and made.decode.lengths[-1] == made.capacity
    demand = Demand(rate=1.0, prompt=ConstantLength(tokens=1), answer=ConstantLength(tokens=3))
    levels = Levels(profile=made, settings=SETTINGS, demand=demand, requests=100)
    assert levels.saturation.requests > levels.simulate(1).answered > 0


@pytest.mark.parametrize("artefact", ["language_model", "captioner_artefact"])
def test_what_a_real_server_adds_is_measured(artefact, request):
    made = measure_profile(request.getfixturevalue(artefact), SETTINGS)
    assert 0.2 < made.served.factor < 100 and 0 <= made.served.request_s < 60
    assert made.fit_error["served"] >= 0


def test_a_classifier_has_no_such_profile(digits_artefact):
    with pytest.raises(UserError, match="an artefact of one of the tasks"):
        measure_profile(digits_artefact, SETTINGS, served=False)


def test_callers_behind_a_real_server_are_answered_with_as_many_tokens_as_they_ask_for(
    server, language_model, tmp_path
):
    model = load_model(language_model, SETTINGS)
    write_inputs(model, [(5, 3), (9, 4)], tmp_path / "inputs.jsonl")
    run = send_load(
        server.grpc,
        LANGUAGE_MODEL,
        tmp_path / "inputs.jsonl",
        ClosedLoop(concurrency=2),
        warmup_s=0.0,
        duration_s=0.3,
    )
    assert {one.outcome for one in run.records} == {RequestOutcome.OK}
    assert {sum(one.tokens) for one in run.records} == {3, 4}
