import itertools
from dataclasses import replace

import pytest

from attendant.errors import InputError
from attendant.manifest import Manifest
from attendant.sampling_params import SamplingParams
from attendant.tokenizer import Tokenizer
from models.checkpoints.resolve import checkpoint_named
from serving.engine.text_generation_model import LanguageModel
from tests.text_checkpoints import CAPACITY, OTHER_PROMPT, PROMPT, SENTENCES, STOPS_AFTER, eager_greedy


@pytest.fixture(scope="module")
def generator(language_model):
    return LanguageModel(language_model, Manifest.read(language_model))


@pytest.fixture(scope="module")
def tokenizer(language_model):
    return Tokenizer.load(language_model / "tokenizer.json")


def answer(generator, text, max_tokens=None):
    pieces = list(generator.stream(generator.request(text, SamplingParams(max_tokens=max_tokens))))
    tokens = [token for piece in pieces for token in piece.token_ids]
    return tokens, "".join(piece.text for piece in pieces), pieces[-1].finish_reason


@pytest.mark.parametrize("text", [PROMPT, OTHER_PROMPT, *SENTENCES[2:]])
def test_cached_decoding_equals_the_eager_model_without_a_cache(generator, tokenizer, language_model, text):
    manifest = Manifest.read(language_model)
    model, end = checkpoint_named(manifest.source).model, manifest.details["end_tokens"]
    prompt = tokenizer.encode(text, CAPACITY)
    expected = eager_greedy(model, prompt, CAPACITY - len(prompt), end)
    tokens, said, _ = answer(generator, text)
    assert tokens == expected
    assert said == tokenizer.decode(expected)


def test_answers_at_the_same_time_have_slots_of_their_own_and_later_ones_take_them_over(language_model):
    fresh = LanguageModel(language_model, Manifest.read(language_model))
    expected = [answer(fresh, text) for text in (PROMPT, OTHER_PROMPT)]
    streams = [fresh.stream(fresh.request(text)) for text in (PROMPT, OTHER_PROMPT)]
    turns = [piece for pair in itertools.zip_longest(*streams) for piece in zip(range(2), pair, strict=True)]
    said = ["".join(piece.text for number, piece in turns if number == one and piece) for one in range(2)]
    assert said == [text for _, text, _ in expected]
    assert [answer(fresh, text) for text in (PROMPT, OTHER_PROMPT)] == expected


def test_an_answer_that_is_left_early_gives_its_slot_back(language_model):
    fresh = LanguageModel(language_model, Manifest.read(language_model))
    stream = fresh.stream(fresh.request(OTHER_PROMPT))
    next(stream)
    assert fresh.engine.meter.active == 1
    stream.close()
    fresh.engine.step()
    assert (fresh.engine.meter.active, fresh.engine.meter.cancelled, fresh.engine.is_idle) == (0, 1, True)


def test_every_prompt_begins_with_the_token_that_the_tokenizer_puts_there(generator):
    assert [generator.request(text).prompt[0] for text in SENTENCES[:2]] == [0, 0]


def test_the_models_end_stops_an_answer_and_a_full_cache_cuts_it(generator):
    tokens, _, reason = answer(generator, PROMPT)
    assert (len(tokens), reason) == (STOPS_AFTER, "stop")
    request = generator.request(OTHER_PROMPT)
    tokens, _, reason = answer(generator, OTHER_PROMPT)
    assert (len(request.prompt) + len(tokens), reason) == (CAPACITY, "length")


@pytest.mark.parametrize(("limit", "reason"), [(STOPS_AFTER, "length"), (STOPS_AFTER + 1, "stop")])
def test_a_limit_cuts_an_answer_and_nothing_is_computed_beyond_it(generator, limit, reason):
    assert answer(generator, PROMPT, limit)[::2] == (answer(generator, PROMPT)[0][:limit], reason)


def test_a_prompt_that_leaves_room_for_one_token_gets_one(generator):
    longest = "the" + " a" * (CAPACITY - 3)
    assert len(generator.request(longest).prompt) == CAPACITY - 1
    assert len(answer(generator, longest)[0]) == 1


@pytest.mark.parametrize(
    ("text", "limit", "says"),
    [
        ("the" + " a" * (CAPACITY - 2), None, f"at most {CAPACITY - 1} tokens; found {CAPACITY}"),
        ("", None, "at least one token"),
        (PROMPT, CAPACITY - 8, "max_tokens from 0 to 31, the cache's 40 positions less the prompt's 9"),
    ],
)
def test_a_request_beyond_the_cache_is_refused(generator, text, limit, says):
    with pytest.raises(InputError, match=says):
        generator.request(text, SamplingParams(max_tokens=limit))


def test_a_model_that_was_exported_without_its_explanation_has_none(generator):
    with pytest.raises(InputError, match="a model that shows what it attends to"):
        generator.request(PROMPT, SamplingParams(explain=True))


def test_a_text_of_a_token_that_the_model_has_no_row_for_is_refused(language_model):
    manifest = Manifest.read(language_model)
    small = LanguageModel(language_model, replace(manifest, config=manifest.config | {"vocabulary_size": 3}))
    with pytest.raises(InputError, match="tokens from 0 to 2"):
        small.request(PROMPT)


def test_a_guide_is_compiled_where_a_request_is_checked(generator):
    with pytest.raises(InputError, match="a regular expression that llguidance can follow"):
        generator.request(PROMPT, SamplingParams(regex="("))
