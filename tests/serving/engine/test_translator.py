import numpy as np
import pytest

from attendant.errors import ArtefactError, AttendantError, InputError
from attendant.manifest import Manifest
from attendant.sampling_params import SamplingParams
from attendant.tokenizer import Tokenizer
from models.checkpoints.resolve import checkpoint_named
from models.generate import pad_sources, translate_greedily
from models.train.date_data import held_out
from serving.engine.text_generation_model import TranslationModel
from serving.runtime.cached_decoder import CachedDecoder


@pytest.fixture(scope="module")
def translator(dates_artefact):
    return TranslationModel(dates_artefact, Manifest.read(dates_artefact))


def answer(translator, text, max_tokens=None):
    pieces = list(translator.stream(translator.request(text, SamplingParams(max_tokens=max_tokens))))
    return "".join(piece.text for piece in pieces), pieces[-1].finish_reason


def test_cached_decoding_equals_the_eager_model_without_a_cache(translator, dates_artefact):
    texts = [text for text, _ in held_out(100)]
    checkpoint = checkpoint_named("dates-transformer")
    tokenizer = Tokenizer.load(dates_artefact / "tokenizer.json")
    sources = [tokenizer.encode(text, 48) for text in texts]
    expected = translate_greedily(checkpoint.model, *pad_sources(sources, 0), max_tokens=15)
    assert [answer(translator, text)[0] for text in texts] == [tokenizer.decode(tokens) for tokens in expected]


def test_a_source_is_echoed_in_tokens_where_nothing_is_to_be_decoded(translator, dates_artefact):
    tokens = tuple(Tokenizer.load(dates_artefact / "tokenizer.json").encode("3rd of march", 48))
    echo = SamplingParams(echo=True, max_tokens=0)
    (output,) = translator.stream(translator.request("3rd of march", echo))
    assert (output.text, output.token_ids, output.finish_reason) == ("3rd of march", tokens, "length")
    (back,) = translator.stream(translator.request(tokens, echo))
    assert back.text == "3rd of march"
    for options in ({"max_tokens": 3}, {}, {"max_tokens": 0, "logprobs": True}):
        with pytest.raises(InputError, match="an answer without its question"):
            translator.request("3rd of march", SamplingParams(echo=True, **options))


def test_tokens_come_one_by_one_and_the_last_piece_says_why(translator):
    pieces = list(translator.stream(translator.request("3rd of march 1997")))
    assert [piece.text for piece in pieces] == [*"1997-03-03", ""]
    assert [piece.finish_reason for piece in pieces] == [""] * 10 + ["stop"]


@pytest.mark.parametrize(
    ("limit", "expected"), [(4, ("1997", "length")), (10, ("1997-03-03", "length")), (11, ("1997-03-03", "stop"))]
)
def test_a_limit_ends_the_answer_and_nothing_is_computed_beyond_it(translator, limit, expected):
    assert answer(translator, "3rd of march 1997", limit) == expected


@pytest.mark.parametrize(
    ("text", "limit", "says"),
    [
        ("", None, "at least one token"),
        ("3rd of märch", None, "'ä'"),
        ("march " * 30, None, "at most 48 tokens"),
        ("3rd of march 1997", 0, "max_tokens from 1 to 15"),
        ("3rd of march 1997", 16, "max_tokens from 1 to 15"),
    ],
)
def test_a_request_that_cannot_be_decoded_is_refused(translator, text, limit, says):
    with pytest.raises(InputError, match=says):
        translator.request(text, SamplingParams(max_tokens=limit))


def test_an_artefact_without_a_tokenizer_is_refused(tiny_translator):
    with pytest.raises(ArtefactError, match=r"tokenizer\.json"):
        TranslationModel(tiny_translator, Manifest.read(tiny_translator))


def test_each_token_comes_with_its_alignment_if_that_is_asked_for(explained_dates):
    translator = TranslationModel(explained_dates, Manifest.read(explained_dates))
    text = "3rd of march 1997"
    shown = list(translator.stream(translator.request(text, SamplingParams(explain=True))))
    assert [piece.alignment.shape for piece in shown] == [(1, len(text))] * 10 + [(0, len(text))]
    np.testing.assert_allclose([piece.alignment.sum() for piece in shown[:-1]], 1, atol=1e-5)
    plain = list(translator.stream(translator.request(text)))
    assert [(piece.text, piece.alignment) for piece in plain] == [(piece.text, None) for piece in shown]


def test_the_graph_that_explains_is_loaded_only_once_somebody_asks_for_it(explained_dates):
    translator = TranslationModel(explained_dates, Manifest.read(explained_dates))
    answer(translator, "3rd of march 1997")
    assert translator.runners.keys() == {"encoder", "decoder"}
    list(translator.stream(translator.request("3rd of march 1997", SamplingParams(explain=True))))
    assert translator.runners.keys() == {"encoder", "decoder", "explained"}


def test_an_artefact_that_explains_nothing_refuses_to(translator):
    with pytest.raises(InputError, match="--explain"):
        translator.request("3rd of march 1997", SamplingParams(explain=True))


@pytest.mark.planted
def test_a_state_that_a_failed_run_may_have_updated_is_not_run_again(explained_gru, monkeypatch):
    translator, step = TranslationModel(explained_gru, Manifest.read(explained_gru)), CachedDecoder.step
    found, runs = [[], []], []

    def fail_behind_the_third(self, tokens, *others):
        shown = step(self, tokens, *others)
        runs.append(len(tokens))
        if len(runs) == 3:
            raise MemoryError("no room for the logits")
        return shown

    monkeypatch.setattr(CachedDecoder, "step", fail_behind_the_third)
    for text, outputs in zip(("3rd of march 1997", "12/11/2003"), found, strict=True):
        translator.engine.submit(translator.request(text), outputs.append)
    while not translator.engine.is_idle:
        translator.engine.step()
    assert runs == [2, 2, 2]
    assert [isinstance(outputs[-1], AttendantError) for outputs in found] == [True, True]
