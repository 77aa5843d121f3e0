"""What a token means for its answer: a piece, its end, and the slot that is free again."""

import math
import time
from types import SimpleNamespace

import numpy as np
import pytest

from attendant.errors import AttendantError, InputError
from attendant.manifest import Manifest
from serving.engine.kv_cache import KVCache, Rows
from serving.engine.meter import Meter
from serving.engine.output_processor import OutputProcessor
from serving.engine.request import create_sequence
from serving.engine.sampling.sampler import SampledToken
from serving.runtime.create_runners import create_runners
from tests.serving.engine.sample_sequences import END, sequence, written

WRONG = InputError("a", "b", "c")


@pytest.fixture
def engine(language_model):
    """An emission over rows of a real decoder; ``start`` gives a request its rows."""
    parts = written(create_runners(language_model, Manifest.read(language_model))["decoder"])
    meter, rows = Meter(), Rows(KVCache(parts.decoder, 4))
    said = []

    def start(samples=1, **asked):
        if samples > 1:
            asked |= {"n": samples, "temperature": 1.0}
        first = sequence(parts, said.append, **asked)
        request = first.request
        request.sequences += [create_sequence(request, number, [5, 6], parts) for number in range(1, samples)]
        for one in request.sequences:
            rows.append(one)
        return request

    emission = OutputProcessor(parts, rows, meter, time.monotonic)
    return SimpleNamespace(start=start, emission=emission, rows=rows, meter=meter, said=said, parts=parts)


def add_token(engine, one, token, alignment=None):
    return engine.emission.add_token(one, SampledToken(token), alignment)


def test_a_token_is_a_piece_and_the_answer_goes_on(engine):
    (one,) = engine.start().sequences
    assert not add_token(engine, one, 70) and not one.is_over
    (piece,) = engine.said
    assert (piece.token_ids, piece.finish_reason, piece.is_last) == ((70,), "", False)
    assert (one.tokens, one.output_length, engine.meter.tokens) == ([5, 6, 70], 1, 1)


def test_an_end_token_ends_the_answer_and_is_no_part_of_it(engine):
    request = engine.start()
    (one,) = request.sequences
    add_token(engine, one, 70)
    assert add_token(engine, one, END)
    assert (engine.said[-1].token_ids, engine.said[-1].finish_reason, engine.said[-1].is_last) == ((), "stop", True)
    assert (one.output_length, engine.meter.tokens, engine.meter.finished) == (1, 1, 1)


def test_the_last_token_that_may_come_is_told_with_the_reason(engine):
    (one,) = engine.start(max_tokens=2).sequences
    assert [add_token(engine, one, 70), add_token(engine, one, 71)] == [False, True]
    assert [(piece.token_ids, piece.finish_reason) for piece in engine.said] == [((70,), ""), ((71,), "length")]


def test_what_was_held_back_for_a_stop_text_is_told_with_the_last_token(engine):
    letters = [engine.parts.tokenizer.encode(letter, 9)[-1] for letter in "ab"]
    (one,) = engine.start(max_tokens=2, stop=("abc",)).sequences
    for token in letters:
        add_token(engine, one, token)
    assert [piece.text for piece in engine.said] == ["", "ab"]


def test_a_stop_text_ends_the_answer(engine):
    letter = engine.parts.tokenizer.encode("a", 9)[-1]
    (one,) = engine.start(stop=("a",)).sequences
    assert add_token(engine, one, letter)
    (piece,) = engine.said
    assert (piece.text, piece.token_ids, piece.finish_reason) == ("", (letter,), "stop")


def test_answers_of_a_request_that_is_not_streamed_are_emitted_whole(engine):
    request = engine.start(samples=2, text="once ")
    request.stream = False
    first, second = request.sequences
    for one in (first, second):
        engine.emission.begin(one)
        add_token(engine, one, 70)
    add_token(engine, first, 71)
    assert engine.said == []
    add_token(engine, second, END)
    add_token(engine, first, END)
    assert [(piece.candidate, piece.token_ids, piece.is_last) for piece in engine.said] == [
        (1, (70,), False),
        (0, (70, 71), True),
    ]
    assert engine.said[1].text == "once " + engine.parts.tokenizer.decode((70, 71))


def test_what_an_alignment_is_to_goes_out_once_and_counts_with_every_output(engine):
    request = engine.start(explain=True, token_counts=True)
    request.source_texts = ("a", "b")
    (one,) = request.sequences
    for token in (70, 71):
        add_token(engine, one, token, np.array([0.5, 0.5]))
    assert [(piece.source_texts, piece.input_tokens) for piece in engine.said] == [(("a", "b"), 2), ((), 2)]


def test_a_request_is_over_with_the_last_of_its_answers(engine):
    request = engine.start(samples=3)
    first, second, third = request.sequences
    for one in (second, first, third):
        add_token(engine, one, END)
    assert [(piece.candidate, piece.is_last) for piece in engine.said] == [(1, False), (0, False), (2, True)]
    assert engine.meter.finished == 1


def test_only_rows_of_answers_that_ended_are_freed(engine):
    request = engine.start(samples=3)
    first, second, third = request.sequences
    add_token(engine, second, END)
    engine.emission.sweep(request)
    assert request.sequences == [first, third] and set(engine.rows.all) == {first, third}
    add_token(engine, first, END)
    add_token(engine, third, END)
    engine.emission.sweep(request)
    assert len(engine.rows) == 0


def test_a_request_fails_once_as_a_whole_and_leaves_nothing_in_its_rows(engine):
    request, other = engine.start(samples=2), engine.start()
    caches = engine.rows._cache.decoder(0, 3).caches
    for buffer in caches.values():
        buffer.numpy()[...] = 3
    engine.emission.fail(request, WRONG)
    engine.emission.fail(request, WRONG)
    assert engine.said == [WRONG] and engine.meter.failed == 1
    engine.emission.sweep(request)
    assert engine.rows.all == other.sequences and engine.rows.all[0].row == 0
    for buffer in caches.values():
        assert not buffer.numpy()[1].any()


def test_an_answer_that_was_dropped_is_told_nothing_more_and_frees_its_rows(engine):
    request = engine.start(samples=3)
    engine.emission.drop(request)
    assert (engine.said, len(engine.rows), engine.meter.finished, engine.meter.failed) == ([], 0, 0, 0)


def test_the_text_of_the_prompt_stands_before_each_answer_if_asked_for(engine):
    for one in engine.start(samples=2, text="once").sequences:
        engine.emission.begin(one)
    for one in engine.start().sequences:
        engine.emission.begin(one)
    assert [(piece.text, piece.candidate, piece.token_ids) for piece in engine.said] == [
        ("once", 0, ()),
        ("once", 1, ()),
    ]


def test_an_alignment_is_told_to_who_asked_for_it_alone(engine):
    for explain in (True, False):
        (one,) = engine.start(explain=explain).sequences
        add_token(engine, one, 70, np.array([0.5, 0.5]))
        add_token(engine, one, END, np.array([0.5, 0.5]))
    shapes = [None if piece.alignment is None else piece.alignment.shape for piece in engine.said]
    assert shapes == [(1, 2), (0, 2), None, None]


def test_each_request_has_one_first_token_and_times_between_the_others(engine):
    request = engine.start(samples=2)
    for token in (70, 71, END):
        for one in request.sequences:
            add_token(engine, one, token)
    assert (sum(engine.meter.first_token_s.counts), sum(engine.meter.between_tokens_s.counts)) == (1, 5)
    assert request.arrived_s <= request.first_s <= request.last_s


def test_the_best_beams_are_told_best_first_each_whole(engine):
    request = engine.start(beam_width=3, n=2, text="once ")
    search = request.search
    logits_V = np.full(320, -50.0, dtype=np.float32)
    logits_V[[END, 70, 71]] = [2.0, 1.0, 0.0]
    while search.advance(logits_V[None].repeat(3, axis=0)) is not None:
        pass
    engine.emission.finish_beams(request)
    engine.emission.sweep(request)
    assert [(piece.candidate, piece.is_last) for piece in engine.said] == [(0, False), (1, True)]
    assert [beam.tokens for beam in search.best()] == [piece.token_ids for piece in engine.said]
    assert engine.said[0].score > engine.said[1].score and math.isclose(engine.said[0].score, search.best()[0].score)
    for piece in engine.said:
        assert piece.text == "once " + engine.parts.tokenizer.decode(piece.token_ids) and piece.finish_reason
    assert (engine.meter.finished, len(engine.rows)) == (1, 0)
    assert engine.meter.tokens == sum(len(piece.token_ids) for piece in engine.said)
    assert not any(isinstance(piece, AttendantError) for piece in engine.said)
