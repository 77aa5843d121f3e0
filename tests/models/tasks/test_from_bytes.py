from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

from attendant.errors import ConfigError
from attendant.images import bytes_from_image, pixels_from_image
from attendant.tensor_names import PIXELS
from models.checkpoints.resolve import checkpoint_named
from models.tasks.from_bytes import PixelNormalisation, example_in_bytes, takes_bytes
from tests.models.agreement import difference, rounding_tolerance
from tests.models.checkpoints.folders import tiny_checkpoint

PREPROCESSING = {
    "mode": "RGB",
    "size": [12, 12],
    "resample": "bicubic",
    "scale": 1 / 255,
    "mean": [0.485, 0.456, 0.406],
    "deviation": [0.229, 0.224, 0.225],
}


def photograph():
    values = np.random.default_rng(0).integers(256, size=(31, 45, 3), dtype=np.uint8)
    return Image.fromarray(values)


def described(preset="vit-tiny"):
    checkpoint = tiny_checkpoint(preset)
    return replace(checkpoint, details={"preprocessing": PREPROCESSING})


def test_the_graph_s_pixels_are_the_library_s_own():
    processor = ViTImageProcessorPil(
        size={"height": 12, "width": 12},
        resample=3,
        image_mean=PREPROCESSING["mean"],
        image_std=PREPROCESSING["deviation"],
    )
    wanted = torch.from_numpy(np.asarray(processor(photograph(), return_tensors="np")["pixel_values"]))
    values = torch.from_numpy(bytes_from_image(photograph(), PREPROCESSING))[None]
    found = PixelNormalisation(PREPROCESSING)(values)
    assert found.shape == (1, 3, 12, 12)
    assert difference(found, wanted) <= 1e-3 / 255 / 0.224
    assert difference(PixelNormalisation({**PREPROCESSING, "mean": [0.5] * 3})(values), wanted) > 1 / 255


def test_the_whole_graph_says_of_bytes_what_the_plain_one_says_of_pixels():
    checkpoint = described()
    (plain,), (graph,) = checkpoint.graphs(), checkpoint.graphs(uint8=True)
    pixels = torch.from_numpy(pixels_from_image(photograph(), PREPROCESSING))[None]
    values = torch.from_numpy(bytes_from_image(photograph(), PREPROCESSING))[None]
    found, rounded = graph.module(values), plain.module(pixels)
    exact = checkpoint.model.double()(pixels.double())
    assert difference(found, exact) <= rounding_tolerance(rounded, exact)
    assert takes_bytes(graph.signature) and not takes_bytes(plain.signature)
    (spec,) = graph.signature.inputs
    assert (spec.name, spec.dtype, spec.axes) == (PIXELS, "uint8", ("batch", 12, 12, 3))


def test_only_the_encoder_of_a_captioner_takes_bytes():
    encoder, decoder = described("captioner-cptr-tiny").graphs(uint8=True)
    assert takes_bytes(encoder.signature)
    assert decoder.signature == tiny_checkpoint("captioner-cptr-tiny").graphs()[1].signature


@pytest.mark.parametrize("preset", ["gpt2-tiny", "timesformer-tiny", "transformer-tiny"])
def test_what_sees_no_image_is_refused(preset):
    with pytest.raises(ConfigError, match="leave --uint8 out"):
        described(preset).graphs(uint8=True)


def test_a_checkpoint_that_does_not_say_how_to_prepare_an_image_is_refused():
    with pytest.raises(ConfigError, match="no preprocessing"):
        tiny_checkpoint("vit-tiny").graphs(uint8=True)


def test_an_example_becomes_the_bytes_that_it_was_made_of():
    checkpoint = checkpoint_named("digits-vit")
    preprocessing = checkpoint.details["preprocessing"]
    example = example_in_bytes(checkpoint.example, preprocessing)
    values = torch.tensor(example["inputs"][PIXELS], dtype=torch.uint8)
    assert values.shape == (8, 8, 1)
    assert (
        difference(
            PixelNormalisation(preprocessing)(values[None])[0], torch.tensor(checkpoint.example["inputs"][PIXELS])
        )
        < 0.003
    )
    assert example["answer"] == checkpoint.example["answer"]


def test_an_example_without_pixels_keeps_no_answer():
    assert example_in_bytes({"inputs": {}, "answer": "7"}, PREPROCESSING) == {}
    assert example_in_bytes({"inputs": {"max_tokens": 3}, "answer": "a"}, PREPROCESSING) == {
        "inputs": {"max_tokens": 3}
    }
