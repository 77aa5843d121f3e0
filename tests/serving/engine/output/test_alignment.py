import numpy as np
import pytest
import torch

from attendant.errors import InputError
from attendant.manifest import Manifest
from attendant.sampling_params import SamplingParams
from models.checkpoints.resolve import checkpoint_named
from models.explain.observe import observe
from serving.engine.output.alignment import aligning_graph, alignment_of, require_aligning
from serving.engine.output_processor import merge_outputs
from serving.engine.settings import EngineSettings
from serving.engine.text_generation_model import CaptionModel, LanguageModel, TranslationModel
from tests.conftest import CAPTIONER, LANGUAGE_MODEL
from tests.text_checkpoints import OTHER_PROMPT, PROMPT, write_language_model


@pytest.fixture(scope="module")
def captioner(exported):
    """The shipped captioner, exported with its explanation; the model, and what serves it."""
    artefact = exported(CAPTIONER, explain=True)
    return checkpoint_named(CAPTIONER).model, CaptionModel(artefact, Manifest.read(artefact))


def test_each_token_of_a_caption_comes_with_what_its_image_was_read_by(captioner):
    model, served = captioner
    pixels = np.random.default_rng(0).standard_normal(model.config.pixel_shape, dtype=np.float32)
    pieces = list(served.stream(served.request(pixels, SamplingParams(max_tokens=5, explain=True))))
    token_ids = [token for piece in pieces for token in piece.token_ids]
    assert token_ids, "an empty caption would prove nothing"
    target = torch.tensor([[model.config.start_token, *token_ids[:-1]]])
    with torch.no_grad(), observe(model, inside="cross_attention") as maps:
        model(torch.from_numpy(pixels)[None], target)
    last_HTS = list(maps.values())[-1][0][0]
    np.testing.assert_allclose(np.concatenate([piece.alignment for piece in pieces]), last_HTS.mean(0), atol=1e-5)
    plain = list(served.stream(served.request(pixels, SamplingParams(max_tokens=5))))
    assert [(piece.token_ids, piece.alignment) for piece in plain] == [(piece.token_ids, None) for piece in pieces]


@pytest.fixture(scope="module")
def language_model_shown(exported):
    """A tiny Llama, exported with its explanation; the checkpoint, and its artefact."""
    folder = exported.checkpoint(LANGUAGE_MODEL, write_language_model)
    return checkpoint_named(str(folder)).model, exported(folder, explain=True)


def last_attention(model, tokens):
    """``[T, T]``, the mean of the last layer's heads in a full forward pass."""
    with torch.no_grad(), observe(model) as maps:
        model(torch.tensor([tokens]))
    return list(maps.values())[-1][0][0].mean(0).numpy()


@pytest.mark.parametrize("prefill", [4, 256])
def test_each_token_of_a_continuation_comes_with_its_attention_to_all_before_it(language_model_shown, prefill):
    model, artefact = language_model_shown
    settings = EngineSettings(max_prefill_tokens=prefill)
    served = LanguageModel(artefact, Manifest.read(artefact), settings=settings)
    request = served.request(PROMPT, SamplingParams(max_tokens=5, explain=True))
    count, outputs = len(request.prompt), list(served.stream(request))
    token_ids = [token for output in outputs for token in output.token_ids]
    rows = [row for output in outputs for row in output.alignment]
    assert [len(row) for row in rows] == list(range(count, count + 5)) and count > 4
    expected = last_attention(model, [*request.prompt, *token_ids[:-1]])
    for place, row in enumerate(rows, start=count - 1):
        np.testing.assert_allclose(row, expected[place, : place + 1], atol=1e-5)
    assert merge_outputs(outputs).alignment.shape == (5, count + 4)
    plain = list(served.stream(served.request(PROMPT, SamplingParams(max_tokens=5))))
    assert [token for output in plain for token in output.token_ids] == token_ids
    assert all(output.alignment is None for output in plain)


def test_beside_another_prompt_and_behind_a_known_one_it_is_the_same(language_model_shown):
    _, artefact = language_model_shown
    served = LanguageModel(artefact, Manifest.read(artefact), settings=EngineSettings(prefix_cache_bytes=1 << 20))
    explained = SamplingParams(max_tokens=4, explain=True)
    (first, beside, known) = [], [], []
    for text, options, found in (
        (OTHER_PROMPT, SamplingParams(max_tokens=9), print),
        (PROMPT, explained, first.append),
    ):
        served.engine.submit(served.request(text, options), found)
    while not served.engine.is_idle:
        served.engine.step()
    for found in (beside, known):
        found += served.stream(served.request(PROMPT, explained))
    for outputs in (beside, known):
        np.testing.assert_allclose(merge_outputs(outputs).alignment, merge_outputs(first).alignment, atol=1e-5)


def test_an_answer_that_is_explained_echoes_no_prompt(language_model_shown):
    with pytest.raises(InputError, match="no echo of a prompt"):
        SamplingParams(explain=True, echo=True)


def test_of_a_transformer_it_is_the_mean_over_the_last_layers_heads_at_its_position():
    weights_BLHTS = np.random.default_rng(0).random((2, 3, 2, 4, 5))
    expected = (weights_BLHTS[1, 2, 0, 1] + weights_BLHTS[1, 2, 1, 1]) / 2
    np.testing.assert_allclose(alignment_of({"cross_attention": weights_BLHTS}, 1, 1, None, 0), expected)
    np.testing.assert_allclose(alignment_of({"cross_attention": weights_BLHTS}, 1, 1, 3, 0), expected[:3])


def test_of_a_recurrent_decoder_it_is_its_own_and_stays_when_the_next_step_writes_over_it():
    weights_BTS = np.random.default_rng(0).random((1, 1, 5))
    found, expected = alignment_of({"alignment": weights_BTS}, 0, 0, None, 0), weights_BTS[0, 0].copy()
    weights_BTS[:] = 0
    np.testing.assert_array_equal(found, expected)


def test_a_neighbours_guesses_change_no_alignment(explained_dates):
    served = TranslationModel(explained_dates, Manifest.read(explained_dates))
    expected = list(served.stream(served.request("11 11 1111", SamplingParams(explain=True))))
    found = []
    for options, take in (
        (SamplingParams(explain=True), found.append),
        (SamplingParams(num_speculative_tokens=4), print),
    ):
        served.engine.submit(served.request("11 11 1111", options), take)
    while not served.engine.is_idle:
        served.engine.step()
    assert served.engine.meter.drafted
    alignments = [np.concatenate([piece.alignment for piece in pieces]) for pieces in (found, expected)]
    np.testing.assert_allclose(*alignments, atol=1e-5)


def test_the_graph_is_the_plain_one_unless_an_explanation_is_asked_for(dates_artefact, explained_dates):
    plain, explained = (aligning_graph(Manifest.read(one)) for one in (dates_artefact, explained_dates))
    assert (plain, explained) == (None, "explained")
    assert require_aligning(explained) == "explained"
    with pytest.raises(InputError, match="--explain"):
        require_aligning(plain)
