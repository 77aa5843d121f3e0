"""A few hundred requests of the soak on a real Triton: what it compares and counts must hold, and it must be able to
find what is wrong."""

from collections import Counter
from dataclasses import replace

import pytest

from attendant.sampling_params import SamplingParams
from attendant.sampling_tensors import params_from_tensors, prompt_from_tensors
from benchmarks.soak.__main__ import soak
from benchmarks.soak.comparison import compare
from benchmarks.soak.mix import draw_requests, prompts_of
from benchmarks.soak.reference import ReferenceEngine, agrees
from benchmarks.soak.streams import StreamedAnswer, StreamRecord, request_tensors

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def artefacts(dates_artefact, explained_gru):
    return {"dates-transformer": dates_artefact, "dates-gru": explained_gru}


@pytest.fixture(scope="module")
def reference(dates_artefact):
    return ReferenceEngine(dates_artefact)


def test_a_short_soak_finds_nothing_wrong(artefacts, tmp_path):
    found = soak(artefacts, tmp_path, count=300, rate=150.0)
    assert found["wrong"] == []
    assert found["load"]["requests"] == 300
    assert found["compared"]["whole answers"] > 150
    assert found["load"]["outcomes"]["cancelled"] > 10


def test_the_mix_is_what_its_seed_says_and_holds_every_kind_of_request():
    models = ["stdlib-lm", "dates-transformer", "dates-gru", "digits-captioner"]
    requests = draw_requests(models, 1000, 100.0, seed=1)
    assert requests == draw_requests(models, 1000, 100.0, seed=1)
    assert len(Counter(one.kind for one in requests)) == 7
    given_up = [one for one in requests if one.cancel_after is not None or one.cancel_at_s or one.options.deadline_ms]
    assert 300 < len(given_up) < 500


def test_options_travel_as_they_are():
    for one in draw_requests(["stdlib-lm", "dates-gru"], 300, 1.0, seed=2):
        tensors = request_tensors("a text", one.options, one.stream)
        assert params_from_tensors(tensors, explain=False) == one.options
        assert prompt_from_tensors(tensors) == "a text"


@pytest.mark.planted
def test_an_answer_with_another_token_is_a_difference_that_rounding_does_not_explain(reference):
    (one,) = draw_requests(["dates-transformer"], 1, 1.0, seed=0)
    one = replace(one, options=SamplingParams(), cancel_after=None, cancel_at_s=None)
    prompts = {one.model: prompts_of(one.model)}
    own = reference.answers(prompts[one.model][one.prompt], one.options, "key")
    wrong = {0: StreamedAnswer([own[0].tokens[0] + 1, *own[0].tokens[1:]], own[0].text, own[0].finish_reason)}
    records = [StreamRecord(outcome="completed", answers=answers) for answers in (own, wrong)]
    counts, differences = compare([one, one], records, prompts, {one.model: reference})
    assert counts == {"whole answers": 2}
    assert [(case.request, case.position, case.explained_by) for case in differences] == [(1, 0, None)]
    assert differences[0].gap > 100 * differences[0].drift


@pytest.mark.parametrize(("share", "explained"), [(1.0, True), (0.5, False)])
def test_another_token_is_explained_by_rounding_only_where_it_is_as_good(reference, share, explained):
    prompt = prompts_of("dates-transformer")[0]
    best = reference.answers(prompt, SamplingParams(max_tokens=1), "best")[0]
    second = reference.answers(prompt, SamplingParams(max_tokens=1, logit_bias={best.tokens[0]: -100.0}), "second")[0]
    bias = {second.tokens[0]: share * reference.gap(prompt, SamplingParams(), [])}
    options = SamplingParams(max_tokens=1, logit_bias=bias)
    other = next(
        one for one in (second, best) if not agrees({0: one}, reference.answers(prompt, options, f"{share}"), True)
    )
    assert (reference.explains(prompt, options, {0: other}, True) is not None) == explained
