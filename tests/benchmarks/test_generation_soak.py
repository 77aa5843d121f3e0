"""A few hundred requests of the soak on a real Triton: what it compares and counts must hold, and it must be able to
find what is wrong."""

from collections import Counter
from dataclasses import replace

import pytest

from attendant.sampling_params import SamplingParams
from benchmarks.generation.alone import Alone, agrees
from benchmarks.generation.asking import Answer, Heard
from benchmarks.generation.mix import mix, subjects_of
from benchmarks.generation.verdicts import compared
from benchmarks.generation_soak import soak

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def artefacts(dates_artefact, explained_gru):
    return {"dates-transformer": dates_artefact, "dates-gru": explained_gru}


@pytest.fixture(scope="module")
def alone(dates_artefact):
    return Alone(dates_artefact)


def test_a_short_soak_finds_nothing_wrong(artefacts, tmp_path):
    found = soak(artefacts, tmp_path, count=300, rate=150.0)
    assert found["wrong"] == []
    assert found["load"]["requests"] == 300
    assert found["compared"]["whole answers"] > 150
    assert found["load"]["outcomes"]["taken back"] > 10


def test_the_mix_is_what_its_seed_says_and_holds_every_kind_of_request():
    models = ["stdlib-lm", "dates-transformer", "dates-gru", "digits-captioner"]
    requests = mix(models, 1000, 100.0, seed=1)
    assert requests == mix(models, 1000, 100.0, seed=1)
    assert len(Counter(one.kind for one in requests)) == 7
    given_up = [one for one in requests if one.leaves_after is not None or one.leaves_at_s or one.options.deadline_ms]
    assert 300 < len(given_up) < 500


@pytest.mark.planted
def test_an_answer_with_another_token_is_a_difference_that_rounding_does_not_explain(alone):
    (one,) = mix(["dates-transformer"], 1, 1.0, seed=0)
    one = replace(one, options=SamplingParams(), leaves_after=None, leaves_at_s=None)
    subjects = {one.model: subjects_of(one.model)}
    own = alone.answers(subjects[one.model][one.subject], one.options, "key")
    wrong = {0: Answer([own[0].tokens[0] + 1, *own[0].tokens[1:]], own[0].text, own[0].finish_reason)}
    heard = [Heard(outcome="answered", answers=answers) for answers in (own, wrong)]
    counts, differences = compared([one, one], heard, subjects, {one.model: alone})
    assert counts == {"whole answers": 2}
    assert [(case.request, case.position, case.explained_by) for case in differences] == [(1, 0, None)]
    assert differences[0].gap > 100 * differences[0].drift


@pytest.mark.parametrize(("share", "explained"), [(1.0, True), (0.5, False)])
def test_another_token_is_explained_by_rounding_only_where_it_is_as_good(alone, share, explained):
    subject = subjects_of("dates-transformer")[0]
    best = alone.answers(subject, SamplingParams(max_tokens=1), "best")[0]
    second = alone.answers(subject, SamplingParams(max_tokens=1, logit_bias={best.tokens[0]: -100.0}), "second")[0]
    bias = {second.tokens[0]: share * alone.gap(subject, SamplingParams(), [])}
    options = SamplingParams(max_tokens=1, logit_bias=bias)
    other = next(
        one for one in (second, best) if not agrees({0: one}, alone.answers(subject, options, f"{share}"), True)
    )
    assert (alone.explains(subject, options, {0: other}, True) is not None) == explained
