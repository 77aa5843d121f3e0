import shutil

import numpy as np
import pytest
import torch

from attendant.errors import ArtefactError, InputError
from attendant.manifest import Manifest
from attendant.sampling_params import SamplingParams
from attendant.tokenizer import Tokenizer
from models.checkpoints.resolve import checkpoint_named
from models.generate import caption_greedily
from models.train.caption_data import held_out_pairs
from serving.engine.text_generation_model import CaptionModel

IMAGES, CAPTIONS = held_out_pairs(60)


@pytest.fixture(scope="module")
def captioner(captioner_artefact):
    return CaptionModel(captioner_artefact, Manifest.read(captioner_artefact))


def answer(captioner, pixels, max_tokens=None):
    pieces = list(captioner.stream(captioner.request(pixels, SamplingParams(max_tokens=max_tokens))))
    return "".join(piece.text for piece in pieces), pieces[-1].finish_reason


def test_cached_decoding_equals_the_eager_model_without_a_cache(captioner, captioner_artefact):
    tokenizer = Tokenizer.load(captioner_artefact / "tokenizer.json")
    expected = caption_greedily(checkpoint_named("digits-captioner").model, torch.from_numpy(IMAGES), max_tokens=7)
    found = [answer(captioner, image)[0] for image in IMAGES]
    assert found == [tokenizer.decode(tokens) for tokens in expected]
    assert sum(one == wanted for one, wanted in zip(found, CAPTIONS, strict=True)) >= 54


def test_words_come_one_by_one_and_the_last_piece_says_why(captioner):
    pieces = list(captioner.stream(captioner.request(IMAGES[CAPTIONS.index("a nine left of an eight")])))
    assert [piece.text for piece in pieces] == ["a", " nine", " left", " of", " an", " eight", ""]
    assert [piece.finish_reason for piece in pieces] == [""] * 6 + ["stop"]


def test_a_limit_ends_the_caption(captioner):
    assert answer(captioner, IMAGES[0], 2)[1] == "length"
    assert len(answer(captioner, IMAGES[0], 2)[0].split()) == 2


@pytest.mark.parametrize(
    ("pixels", "limit", "says"),
    [
        (
            np.zeros((1, 8, 8), np.float32),
            None,
            r"shape \[batch, 1, 16, 16\]; found float32 \[1, 1, 8, 8\]",
        ),
        (np.zeros((1, 16, 16)), None, "float64"),
        (np.full((1, 16, 16), np.nan, np.float32), None, "finite pixels"),
        (np.zeros((1, 16, 16), np.float32), 0, "max_tokens from 1 to"),
        (np.zeros((1, 16, 16), np.float32), 8, "max_tokens from 1 to 7"),
    ],
    ids=["shape", "type", "nan", "none", "too many"],
)
def test_a_request_that_cannot_be_described_is_refused(captioner, pixels, limit, says):
    with pytest.raises(InputError, match=says):
        captioner.request(pixels, SamplingParams(max_tokens=limit))


def test_an_artefact_without_a_tokenizer_is_refused(captioner_artefact, tmp_path):
    shutil.copytree(captioner_artefact, tmp_path / "artefact", ignore=shutil.ignore_patterns("tokenizer.json"))
    with pytest.raises(ArtefactError, match=r"tokenizer\.json"):
        CaptionModel(tmp_path / "artefact", Manifest.read(tmp_path / "artefact"))
