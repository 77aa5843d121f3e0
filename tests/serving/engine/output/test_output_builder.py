"""Tokens → pieces: characters are whole, nothing of a stop is told, and only what was asked for is reported."""

import numpy as np
import pytest

from attendant.sampling_params import SamplingParams
from attendant.tokenizer import Tokenizer
from serving.engine.output.detokenizer import OutputBuilder, offsets_of
from serving.engine.sampling.sampler import SampledToken
from tests.serving.engine.output.test_detokenization import sentence_piece
from tests.text_checkpoints import byte_level_bpe


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer(byte_level_bpe())


def tokens_of(tokenizer, text):
    return [token for character in text for token in tokenizer.encode(character, 99)[1:]]


def written(tokenizer, text, reason="length", **options):
    """The pieces of a text, a token each, and whether the writer had stopped before the end."""
    writer = OutputBuilder(tokenizer, SamplingParams(**options), candidate=3)
    pieces = []
    for token in tokens_of(tokenizer, text):
        pieces.append(writer.add(SampledToken(token), None))
        if writer.is_stopped:
            break
    return [*pieces, writer.rest(reason, None)], writer.is_stopped


def test_a_character_of_several_tokens_is_told_with_its_last(tokenizer):
    pieces, stopped = written(tokenizer, "a🙃b")
    texts = [piece.text for piece in pieces]
    assert len(texts) > 4 and "".join(texts) == "a🙃b" and not stopped
    assert [text for text in texts if text] == ["a", "🙃", "b"]


def test_each_piece_carries_its_token_and_the_last_none_but_the_reason(tokenizer):
    pieces, _ = written(tokenizer, "abc")
    assert [piece.token_ids for piece in pieces] == [*((token,) for token in tokens_of(tokenizer, "abc")), ()]
    assert [piece.finish_reason for piece in pieces] == ["", "", "", "length"]
    assert {piece.candidate for piece in pieces} == {3}


def test_what_is_left_of_a_character_is_told_at_the_end(tokenizer):
    writer = OutputBuilder(tokenizer, SamplingParams(), 0)
    first, *_ = tokens_of(tokenizer, "🙃")
    assert writer.add(SampledToken(first), None).text == ""
    assert writer.rest("length", None).text == "�"


def test_a_stop_text_ends_the_answer_and_nothing_of_it_is_told(tokenizer):
    pieces, stopped = written(tokenizer, "one, two", stop=(", t", "w"))
    assert stopped and "".join(piece.text for piece in pieces) == "one"
    assert len(pieces) == len("one, t") + 1


def test_what_could_have_been_a_stop_text_is_told_once_it_is_none_or_at_the_end(tokenizer):
    pieces, stopped = written(tokenizer, "ab abc", stop=("abd", "abcd"))
    assert not stopped and "".join(piece.text for piece in pieces) == "ab abc"
    assert pieces[1].text == "" and pieces[2].text == "ab " and pieces[-1].text == "abc"


def test_no_stop_is_looked_for_within_the_least_number_of_tokens(tokenizer):
    pieces, stopped = written(tokenizer, "axxx", stop=("x",), min_tokens=2)
    assert stopped and "".join(piece.text for piece in pieces) == "ax"
    assert sum(len(piece.token_ids) for piece in pieces) == 3


def test_probabilities_are_reported_if_asked_for(tokenizer):
    choice = SampledToken(70, -0.5, ((70, -0.5), (71, -1.5)))
    for options, logprobs, top in (
        ({}, (), ()),
        ({"logprobs": True}, (-0.5,), ()),
        ({"logprobs": True, "top_logprobs": 2}, (-0.5,), (choice.top,)),
    ):
        piece = OutputBuilder(tokenizer, SamplingParams(**options), 0).add(choice, None)
        assert (piece.logprobs, piece.top_logprobs) == (logprobs, top)


def test_an_alignment_stands_beside_its_token_and_that_of_no_token_is_empty(tokenizer):
    writer = OutputBuilder(tokenizer, SamplingParams(explain=True), 0)
    weights_S = np.array([0.25, 0.75])
    assert np.array_equal(writer.add(SampledToken(70), weights_S).alignment, [[0.25, 0.75]])
    assert writer.rest("stop", weights_S).alignment.shape == (0, 2)


def test_an_aligned_token_says_what_it_adds_and_a_plain_one_does_not(tokenizer):
    weights_S = np.array([0.25, 0.75])
    writer = OutputBuilder(tokenizer, SamplingParams(), 0)
    pieces = [writer.add(SampledToken(token), weights_S) for token in (70, 71)]
    assert [piece.token_texts for piece in pieces] == [(piece.text,) for piece in pieces]
    assert writer.add(SampledToken(72), None).token_texts == writer.rest("stop", weights_S).token_texts == ()


def placed(tokenizer, tokens):
    writer = OutputBuilder(tokenizer, SamplingParams(logprobs=True), 0)
    pieces = [writer.add(SampledToken(token), None) for token in tokens]
    return [place for piece in pieces for place in piece.text_offsets]


def test_a_token_says_where_its_text_begins_though_that_is_held_back(tokenizer):
    offsets = placed(tokenizer, tokens_of(tokenizer, "a🙃b"))
    assert offsets[:2] == [0, 1] and offsets[-1] == 2 and set(offsets[1:-1]) == {1}, "all of the second character"
    _, *tail = tokens_of(tokenizer, "🙃")
    offsets = placed(tokenizer, [*tail, *tokens_of(tokenizer, "bc")])
    assert offsets == list(range(len(tail) + 2)), "bytes that are no character stand as one each"


def test_so_it_does_where_single_bytes_wait_for_the_end_of_their_run():
    tokenizer = Tokenizer(sentence_piece())
    for text, expected in (
        ("日本", [0, 0, 0, 1, 1, 1]),
        ("🙂🙂", [0, 0, 0, 0, 1, 1, 1, 1]),
        ("é日é", [0, 0, 1, 1, 1, 2, 2]),
    ):
        assert placed(tokenizer, [1 + byte for byte in text.encode()]) == expected


def test_places_of_an_answer_count_from_its_prompt(tokenizer):
    writer = OutputBuilder(tokenizer, SamplingParams(logprobs=True), 0)
    start, *prompt = tokenizer.encode("a🙃 b", 99)
    scored = [SampledToken(token) for token in (start, *prompt)]
    said = writer.prompt("a🙃 b", scored, tuple(offsets_of(tokenizer, [one.token for one in scored])))
    assert len(said.text_offsets) == len(scored) and said.text_offsets[:3] == (0, 0, 1)
    assert writer.add(SampledToken(tokens_of(tokenizer, "c")[0]), None).text_offsets == (4,)
    plain = OutputBuilder(tokenizer, SamplingParams(), 0)
    assert plain.prompt("a🙃 b", scored, ()).text_offsets == () == plain.add(scored[1], None).text_offsets


def test_places_of_a_prompt_that_its_tokenizer_changes_are_those_that_it_says(tokenizer):
    writer = OutputBuilder(tokenizer, SamplingParams(logprobs=True), 0)
    scored = [SampledToken(token) for token in tokens_of(tokenizer, "éa")]
    assert writer.prompt("e\u0301a", scored, (0, 0, 2)).text_offsets == (0, 0, 2)
    assert writer.add(scored[-1], None).text_offsets == (3,)
