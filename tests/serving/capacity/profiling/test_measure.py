"""A profile is measured of any model that writes: runs, engine, and what serving adds."""

import pytest

from attendant.errors import UserError
from clients.load.arrivals import ClosedLoop
from clients.load.record import RequestOutcome
from serving.capacity.demand import Demand
from serving.capacity.lengths import Constant
from serving.capacity.levels import Levels
from serving.capacity.profile import Profile
from serving.capacity.profiling import overhead, timing
from serving.capacity.profiling import through_triton as behind_triton
from serving.capacity.profiling.measure import measured
from serving.capacity.profiling.prompts import loaded
from serving.capacity.profiling.requests import asked, write_questions
from serving.engine.settings import EngineSettings
from tests.conftest import LANGUAGE_MODEL

pytestmark = pytest.mark.slow

SETTINGS = EngineSettings(max_num_seqs=2, max_prefill_tokens=8, prefix_cache_bytes=0)


@pytest.fixture(autouse=True)
def _hasty(monkeypatch):
    monkeypatch.setattr(timing, "_MOST_CALLS", 1)
    monkeypatch.setattr(timing.medians, "__defaults__", (1,))
    monkeypatch.setattr(timing, "_LEAST_CALLS", 1)
    monkeypatch.setattr(overhead, "_ROUNDS", 2)
    hasty = {"LEAST_S": 1.0, "MOST_S": 1.0, "ROUNDS": 1, "_LOOP_S": 0.5, "_WARM_UP_S": 0.2, "_QUESTIONS": 8}
    for name, value in hasty.items():
        monkeypatch.setattr(behind_triton, name, value)


@pytest.mark.parametrize("artefact", ["language_model", "dates_artefact", "captioner_artefact"])
def test_a_profile_of_any_family_can_be_planned_with(artefact, request, tmp_path):
    folder = request.getfixturevalue(artefact)
    made = measured(folder, SETTINGS, served=False)
    made.write(tmp_path / "profile.json")
    read = Profile.read(tmp_path / "profile.json")
    assert read == made and made.served == ()
    assert (made.encoder is None) == (artefact == "language_model") != (made.prompt is None)
    assert made.decode.sizes == (1, 2) and made.decode.lengths[-1] == made.capacity
    demand = Demand(rate=1.0, prompt=Constant(tokens=1), answer=Constant(tokens=3))
    levels = Levels(profile=made, settings=SETTINGS, demand=demand, requests=100)
    assert levels.limit.requests > levels.under(1).answered > 0


@pytest.mark.parametrize("artefact", ["language_model", "captioner_artefact"])
def test_what_a_real_server_adds_is_measured_at_rising_loads(artefact, request):
    made = measured(request.getfixturevalue(artefact), SETTINGS)
    loads = [one.tokens_per_s for one in made.served]
    assert len(loads) == len(behind_triton.SHARES) + 1 and loads == sorted(loads) and loads[0] > 0
    for one in made.served:
        assert min(one.response_s) > 0 and 0 < max(one.way_s) < 60.0
        assert 0.2 < sum(one.decode_factor) / len(one.decode_factor) < 100
    assert made.fit_error["served"] >= 0


def test_a_classifier_has_no_such_profile(digits_artefact):
    with pytest.raises(UserError, match="an artefact of one of the tasks"):
        measured(digits_artefact, SETTINGS, served=False)


def test_callers_behind_a_real_server_are_answered_with_as_many_tokens_as_they_ask_for(
    server, language_model, tmp_path
):
    model = loaded(language_model, SETTINGS)
    write_questions(model, [(5, 3), (9, 4)], tmp_path / "questions.jsonl")
    run = asked(
        server.grpc,
        LANGUAGE_MODEL,
        tmp_path / "questions.jsonl",
        ClosedLoop(concurrency=2),
        warmup_s=0.0,
        duration_s=0.3,
    )
    assert {one.outcome for one in run.records} == {RequestOutcome.OK}
    assert {sum(one.tokens) for one in run.records} == {3, 4}
