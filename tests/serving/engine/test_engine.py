"""Requests that share an engine's steps are answered as each alone is, whoever comes and goes."""

import itertools
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attendant.errors import AttendantError, BusyError, CancelledError, DeadlineError, InputError, MachineError
from attendant.manifest import Manifest
from attendant.sampling_params import SamplingParams
from models.train.caption_data import held_out_pairs
from models.train.date_data import held_out
from serving.engine import executor
from serving.engine.engine import Engine
from serving.engine.sampling import draft_length
from serving.engine.settings import EngineSettings
from serving.engine.text_generation_model import CaptionModel, LanguageModel, TranslationModel
from tests.text_checkpoints import CAPACITY

FEW = EngineSettings(max_num_seqs=4, max_queue_size=50, max_prefill_tokens=5, prefix_cache_bytes=0)
ONE = EngineSettings(max_num_seqs=1, max_queue_size=2)


def loaded(kind, folder, engine=FEW):
    return kind(folder, Manifest.read(folder), settings=engine)


@pytest.fixture(scope="module")
def generator(language_model):
    return loaded(LanguageModel, language_model)


def finish(engine):
    while not engine.is_idle:
        engine.step()


def submitted(model, subject, options):
    said = []
    return said, model.engine.submit(model.request(subject, options), said.append)


def answers(said):
    """For each candidate its text, tokens and end; or the error."""
    if isinstance(said[-1], AttendantError):
        return type(said[-1])
    assert [piece.is_last for piece in said] == [False] * (len(said) - 1) + [True]
    found = {}
    for piece in said:
        text, tokens, _ = found.get(piece.candidate, ("", (), ""))
        found[piece.candidate] = text + piece.text, tokens + piece.token_ids, piece.finish_reason
    assert all(reason for _, _, reason in found.values())
    return found


def alone(model, subject, options):
    said, _ = submitted(model, subject, options)
    finish(model.engine)
    return answers(said)


OPTIONS = st.one_of(
    st.builds(
        SamplingParams,
        max_tokens=st.integers(1, 8),
        stop=st.sampled_from([(), ("a",), ("the", "é")]),
        repetition_penalty=st.sampled_from([1.0, 1.5]),
        logprobs=st.booleans(),
    ),
    st.builds(
        SamplingParams,
        max_tokens=st.integers(1, 8),
        temperature=st.just(1.0),
        top_k=st.sampled_from([0, 20]),
        seed=st.integers(0, 99),
        n=st.integers(1, 3),
        ignore_eos=st.booleans(),
    ),
    st.builds(SamplingParams, max_tokens=st.integers(1, 8), beam_width=st.integers(2, 4), n=st.integers(1, 2)),
    st.builds(SamplingParams, max_tokens=st.integers(1, 8), num_speculative_tokens=st.integers(1, 4)),
)
PROMPTS = st.lists(st.integers(2, 319), min_size=1, max_size=20)
REQUESTS = st.lists(st.tuples(PROMPTS, OPTIONS, st.integers(0, 12), st.integers(-30, 12)), min_size=2, max_size=9)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(requests=REQUESTS)
def test_a_mix_of_requests_is_answered_as_each_alone_and_leaves_no_slot_taken(generator, requests):
    expected = [alone(generator, prompt, options) for prompt, options, _, _ in requests]
    running, step = {}, 0
    while len(running) < len(requests) or not generator.engine.is_idle:
        for number, (prompt, options, arrives, _) in enumerate(requests):
            if arrives == step:
                running[number] = submitted(generator, prompt, options)
        for number, (_, request) in running.items():
            if requests[number][2] + requests[number][3] == step and requests[number][3] > 0:
                request.cancel()
        generator.engine.step()
        step += 1
    for number, (said, request) in running.items():
        found = answers(said)
        assert found == expected[number] or (request.is_cancelled and found is CancelledError)
    assert (generator.engine.meter.active, generator.engine.meter.cached_tokens) == (0, 0)
    assert generator.engine._scheduler._free() == FEW.max_num_seqs


@pytest.mark.parametrize("artefact", ["dates_artefact", "gru_artefact", "captioner_artefact"])
def test_sources_of_different_lengths_share_the_slots_of_any_family(artefact, request):
    folder = request.getfixturevalue(artefact)
    if artefact == "captioner_artefact":
        model, subjects = loaded(CaptionModel, folder), list(held_out_pairs(12)[0])
    elif artefact == "dates_artefact":
        model, subjects = loaded(TranslationModel, folder), [text for text, _ in held_out(12)]
    else:
        model, subjects = gru_translator(folder), [list(range(1, 2 + length)) for length in (3, 9, 1, 11, 5, 7, 2, 4)]
    options = [SamplingParams(), SamplingParams(beam_width=3, n=2)]
    asked = [(subject, options[number % 2]) for number, subject in enumerate(subjects)]
    expected = [alone(model, *one) for one in asked]
    together = [submitted(model, *one)[0] for one in asked]
    finish(model.engine)
    assert [answers(said) for said in together] == expected
    assert model.engine.meter.active == 0


def gru_translator(folder):
    from attendant.tokenizer import Tokenizer
    from serving.engine import text_generation_model as writing_model
    from tests.text_checkpoints import byte_level_bpe

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing_model, "load_tokenizer", lambda folder, options: Tokenizer(byte_level_bpe()))
        return loaded(TranslationModel, folder)


class Recording:
    """The real decoder; it remembers what it was fed, and fails where a token is told to."""

    def __init__(self, runner, poison=None):
        self._runner, self._poison = runner, poison
        self.signature, self.allocate = runner.signature, runner.allocate
        self.tokens, self.addresses = [], []

    def run(self, feeds):
        self.tokens.append(feeds["token_ids"])
        self.addresses.append(feeds["self_00_key_in"].address)
        if self._poison is not None and (feeds["token_ids"] == self._poison).any():
            raise RuntimeError("the runtime failed")
        return self._runner.run(feeds)


def recorded(language_model, engine, poison=None):
    model = loaded(LanguageModel, language_model, engine)
    recording = Recording(model.runners["decoder"], poison)
    model.runners["decoder"] = recording
    model.engine = Engine(replace(model.loaded, decoder=recording), engine)
    return model, recording


def test_what_a_runtime_fails_on_is_one_requests_error_and_its_batch_mates_go_on(language_model):
    model, _ = recorded(language_model, EngineSettings(max_num_seqs=4), poison=77)
    expected = alone(model, [3, 4, 5], SamplingParams(max_tokens=9))
    asked = [[3, 4, 5], [3, 77, 5], [3, 4, 5], [77]]
    said = [submitted(model, prompt, SamplingParams(max_tokens=9))[0] for prompt in asked]
    finish(model.engine)
    assert [answers(one) for one in said] == [expected, MachineError, expected, MachineError]
    assert model.engine.meter.failed == 2 and model.engine.meter.active == 0


def test_a_step_reads_no_more_of_prompts_than_it_may_and_the_others_get_a_token_in_each(language_model):
    model, recording = recorded(
        language_model, EngineSettings(max_num_seqs=4, max_prefill_tokens=4, prefix_cache_bytes=0)
    )
    short, _ = submitted(model, [5], SamplingParams(max_tokens=20, ignore_eos=True))
    model.engine.step()
    submitted(model, list(range(2, 25)), SamplingParams(max_tokens=2, ignore_eos=True))
    for count in range(2, 8):
        model.engine.step()
        assert len(short) == count, "a token a step, while the long prompt is read"
    widths = [tokens.size for tokens in recording.tokens if tokens.shape[1] > 1]
    assert widths and max(widths) <= 4


def test_prompts_are_read_in_the_order_of_their_arrival_though_rows_move(language_model):
    model, _ = recorded(language_model, EngineSettings(max_num_seqs=5, max_prefill_tokens=4, prefix_cache_bytes=0))
    for count in (2, 4):
        submitted(model, [5], SamplingParams(max_tokens=count, ignore_eos=True))
    model.engine.step()
    order = []
    for name in ("first", "second", "third"):
        request = model.request(list(range(2, 20)), SamplingParams(max_tokens=1))
        model.engine.submit(request, partial(lambda name, piece: order.append(name), name))
    finish(model.engine)
    assert order == ["first", "second", "third"]


def test_a_step_binds_the_slots_where_they_stand_and_copies_nothing(language_model):
    model, recording = recorded(language_model, EngineSettings(max_num_seqs=4, prefix_cache_bytes=0))
    for prompt in ([5], [6], [7]):
        submitted(model, prompt, SamplingParams(max_tokens=6, ignore_eos=True))
    finish(model.engine)
    assert len(set(recording.addresses)) == 1, "the first slot's address, whatever the batch"


def test_drafts_change_no_token_and_save_steps_where_the_text_repeats_itself(language_model, monkeypatch):
    monkeypatch.setattr(executor, "perf_counter", itertools.count().__next__)  # a step takes as long as any other
    generator = loaded(LanguageModel, language_model)  # its own: a shared one remembers how long others' steps took
    prompt = [9, 8, 7, 9, 8, 7, 9, 8]
    for options in ({}, {"temperature": 0.7, "seed": 3}, {"logit_bias": {9: 100.0}}):
        before = generator.engine.meter.steps
        plain = alone(generator, prompt, SamplingParams(max_tokens=20, ignore_eos=True, **options))
        steps = generator.engine.meter.steps - before
        drafted = alone(
            generator, prompt, SamplingParams(max_tokens=20, ignore_eos=True, num_speculative_tokens=4, **options)
        )
        assert drafted == plain
    assert generator.engine.meter.steps - before - steps < steps / 2, "of a text that is one token again and again"
    assert 0 < generator.engine.meter.accepted <= generator.engine.meter.drafted


def test_what_was_answered_before_is_a_draft_for_who_asks_it_again(language_model, monkeypatch):
    monkeypatch.setattr(
        draft_length.DraftLength, "best", lambda self, rows, drafts: max((n for n, _ in drafts), default=0)
    )
    model = loaded(LanguageModel, language_model, EngineSettings(max_num_seqs=1))
    options = SamplingParams(max_tokens=20, ignore_eos=True, temperature=1.0, seed=3)
    prompt, steps = list(range(2, 20)), [0]
    plain = alone(model, prompt, options)
    for asked in range(2):
        assert alone(model, prompt, replace(options, num_speculative_tokens=8)) == plain, asked
        steps.append(model.engine.meter.steps - sum(steps))
    assert steps[2] < steps[1] / 3, "all but the first token of an answer like no other"


def test_drafts_whose_steps_take_too_long_are_left_out_for_a_while(language_model, monkeypatch):
    model, recording = recorded(language_model, EngineSettings(max_num_seqs=1))
    now_s = [0.0]
    monkeypatch.setattr(executor, "perf_counter", lambda: now_s[0])
    run, widths = recording.run, []

    def timed(feeds):
        width = feeds["token_ids"].shape[1]
        if feeds["start"][0]:
            widths.append(width)
        now_s[0] += 1.0 if width == 1 else 10.0
        return run(feeds)

    recording.run = timed
    options = SamplingParams(ignore_eos=True, num_speculative_tokens=2, logit_bias={9: 100.0})
    while len(widths) < 1.5 * draft_length.AGAIN:
        submitted(model, [9, 9], options)
        finish(model.engine)
    trials = [place for place, width in enumerate(widths) if width > 1]
    assert len(trials) == 2 * draft_length.TRIALS, "at the beginning, and after a while"
    assert trials[draft_length.TRIALS] - trials[draft_length.TRIALS - 1] > draft_length.AGAIN


def test_a_prompt_that_begins_as_an_earlier_one_is_not_computed_again(language_model):
    model, recording = recorded(language_model, EngineSettings(max_num_seqs=2, max_prefill_tokens=64))
    prompt = list(range(2, 38))
    first = alone(model, prompt, SamplingParams(max_tokens=3))
    computed = sum(tokens.size for tokens in recording.tokens)
    assert alone(model, prompt, SamplingParams(max_tokens=3)) == first
    assert sum(tokens.size for tokens in recording.tokens) - computed == computed - 32
    assert (model.engine.meter.prefix_tokens, model.engine.meter.prompt_tokens) == (32, 2 * 36)
    alone(model, [1, *prompt[1:]], SamplingParams(max_tokens=3))
    assert model.engine.meter.prefix_tokens == 32, "another beginning is another prompt"


def test_every_output_says_how_many_of_the_prompts_tokens_were_cached(language_model):
    model = loaded(LanguageModel, language_model, EngineSettings(max_num_seqs=2))
    prompt = list(range(2, 38))

    def cached(**options):
        options = SamplingParams(max_tokens=2, ignore_eos=True, token_counts=True, **options)
        return {output.cached_tokens for output in model.stream(model.request(prompt, options))}

    assert [cached(), cached(), cached(echo=True, logprobs=True)] == [{0}, {32}, {0}]
    without = loaded(LanguageModel, language_model, EngineSettings(prefix_cache_bytes=0))
    options = SamplingParams(max_tokens=2, token_counts=True)
    assert {output.cached_tokens for output in without.stream(without.request(prompt, options))} == {None}


def test_a_prompt_whose_last_token_is_left_to_the_next_step_is_remembered_too(language_model):
    model = loaded(LanguageModel, language_model, EngineSettings(max_num_seqs=2, max_prefill_tokens=32))
    for _ in range(2):
        alone(model, list(range(2, 35)), SamplingParams(max_tokens=3))
    assert model.engine.meter.prefix_tokens == 32


def test_who_has_priority_is_served_first_and_others_in_turn(language_model):
    model = loaded(LanguageModel, language_model, EngineSettings(max_num_seqs=1, max_queue_size=9))
    order = []
    for name, priority in (("first", 1), ("second", 1), ("urgent", 0)):
        request = model.request([5], SamplingParams(max_tokens=2, priority=priority))
        model.engine.submit(request, partial(lambda name, piece: order.append(name) if piece.is_last else None, name))
        if name == "first":
            model.engine.step()
    finish(model.engine)
    assert order == ["first", "urgent", "second"]


def test_one_request_too_many_is_refused_at_once_and_counted(language_model):
    model = loaded(LanguageModel, language_model, ONE)
    said = [submitted(model, [5], SamplingParams(max_tokens=3))[0] for _ in range(2)]
    with pytest.raises(BusyError, match="queue full: 2 requests waiting"):
        submitted(model, [5], SamplingParams())
    finish(model.engine)
    assert model.engine.meter.rejected == 1 and all(said[number][-1].is_last for number in range(2))


def test_a_request_of_more_sequences_than_slots_is_refused(language_model):
    with pytest.raises(InputError, match="at most 1 sequences"):
        submitted(loaded(LanguageModel, language_model, ONE), [5], SamplingParams(beam_width=2))


@pytest.mark.parametrize("waits", [True, False])
def test_a_deadline_ends_a_request_that_waits_or_is_served_and_frees_its_slot(language_model, waits):
    model = loaded(LanguageModel, language_model, ONE)
    blocker = submitted(model, [5], SamplingParams(max_tokens=30, ignore_eos=True)) if waits else None
    model.engine.step()
    said, request = submitted(model, [5], SamplingParams(max_tokens=30, ignore_eos=True, deadline_ms=60_000))
    model.engine.step()
    request.deadline_s = 0.0
    model.engine.step()
    assert isinstance(said[-1], DeadlineError) and model.engine.meter.deadline_exceeded == 1
    if blocker:
        blocker[1].cancel()
    finish(model.engine)
    assert model.engine.meter.active == 0


def test_logits_that_are_no_numbers_are_one_requests_error(language_model):
    model, recording = recorded(language_model, EngineSettings(max_num_seqs=3))
    real = recording.run

    def spoiled(feeds):
        outputs = real(feeds)
        outputs["logits"].numpy()[(feeds["token_ids"] == 88).any(1)] = np.nan
        return outputs

    recording.run = spoiled
    said = [submitted(model, prompt, SamplingParams(max_tokens=5))[0] for prompt in ([5], [88], [6])]
    finish(model.engine)
    assert isinstance(said[1][-1], AttendantError) and said[0][-1].is_last and said[2][-1].is_last


def test_prompt_and_answer_may_fill_the_cache_to_its_last_position(generator):
    prompt = list(range(2, CAPACITY))
    found = alone(generator, prompt, SamplingParams(ignore_eos=True, num_speculative_tokens=4))
    assert len(found[0][1]) == CAPACITY - len(prompt)


def test_queue_prefill_and_decode_of_a_request_are_the_parts_of_its_time(language_model):
    ticks = itertools.count()
    engine = Engine(loaded(LanguageModel, language_model).loaded, ONE, clock=lambda: float(next(ticks)))
    model = loaded(LanguageModel, language_model)
    for max_tokens in (1, 4):
        engine.submit(model.request("def", SamplingParams(max_tokens=max_tokens, ignore_eos=True)), lambda _: None)
    finish(engine)
    meter = engine.meter
    parts = (meter.queue_s, meter.prefill_s, meter.decode_s)
    assert [sum(part.counts) for part in (*parts, meter.e2e_s)] == [2] * 4
    assert meter.e2e_s.total_s - sum(part.total_s for part in parts) == 2, "the clock's tick as each is over"
    assert meter.queue_s.total_s > 0
    assert meter.prefill_s.total_s > 0 and meter.decode_s.counts[0] == 1, "an answer of one token is not decoded on"
    assert meter.first_token_s.total_s == meter.queue_s.total_s + meter.prefill_s.total_s
