import numpy as np
import pytest
import torch

from attendant.errors import InputError
from attendant.manifest import Manifest
from attendant.sampling_params import SamplingParams
from models.checkpoints.resolve import checkpoint_named
from models.explain.observe import observe
from serving.engine.output.alignment import aligning_graph, alignment_of, require_aligning
from serving.engine.text_generation_model import CaptionModel, TranslationModel
from tests.conftest import CAPTIONER


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


def test_of_a_transformer_it_is_the_mean_over_the_last_layers_heads_at_its_position():
    weights_BLHTS = np.random.default_rng(0).random((2, 3, 2, 4, 5))
    expected = (weights_BLHTS[1, 2, 0, 1] + weights_BLHTS[1, 2, 1, 1]) / 2
    np.testing.assert_allclose(alignment_of({"cross_attention": weights_BLHTS}, 1, 1, None), expected)
    np.testing.assert_allclose(alignment_of({"cross_attention": weights_BLHTS}, 1, 1, 3), expected[:3])


def test_of_a_recurrent_decoder_it_is_its_own_and_stays_when_the_next_step_writes_over_it():
    weights_BTS = np.random.default_rng(0).random((1, 1, 5))
    found, expected = alignment_of({"alignment": weights_BTS}, 0, 0, None), weights_BTS[0, 0].copy()
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
