"""An imported preprocessor's configuration, read by ours and followed by our client, makes the library's own pixels."""

import json

import numpy as np
import pytest
from PIL import Image
from transformers.models.deit.image_processing_pil_deit import DeiTImageProcessorPil
from transformers.models.videomae.image_processing_pil_videomae import VideoMAEImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

from attendant.errors import ArtefactError, ConfigError
from attendant.images import pixels_from_image
from models.checkpoints.importers.images import PREPROCESSOR_NAME, PROCESSOR_NAME, image_details

SHAPE = (3, 24, 24)
SQUARE = {"height": 24, "width": 24}
LANDSCAPE, PORTRAIT, SMALL = (61, 40), (33, 47), (9, 10)


def photograph(size, mode="RGB"):
    """Smooth colours with noise, so that every way to resample gives other pixels."""
    random = np.random.default_rng(0)
    height, width = size[1], size[0]
    waves = np.sin(np.arange(height)[:, None, None] / 3 + np.arange(width)[None, :, None] / 5 + np.arange(3))
    values = 128 + 80 * waves + random.normal(0, 25, (height, width, 3))
    return Image.fromarray(values.clip(0, 255).astype(np.uint8)).convert(mode)


def folder_of(processor, folder, **changes):
    processor.save_pretrained(folder)
    path = folder / PREPROCESSOR_NAME
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return folder


@pytest.mark.parametrize("size", [LANDSCAPE, PORTRAIT, SMALL], ids=str)
@pytest.mark.parametrize(
    "processor",
    [
        ViTImageProcessorPil(size=SQUARE),
        ViTImageProcessorPil(size=SQUARE, resample=3, image_mean=[0.485, 0.456, 0.4], image_std=[0.229, 0.224, 0.2]),
        ViTImageProcessorPil(size=SQUARE, resample=1, do_normalize=False),
        ViTImageProcessorPil(size=SQUARE, resample=0, do_rescale=False, image_mean=[9.0] * 3, image_std=[64.0] * 3),
        DeiTImageProcessorPil(size={"height": 27, "width": 29}, crop_size=SQUARE),
        DeiTImageProcessorPil(size={"shortest_edge": 27}, crop_size=SQUARE),
        VideoMAEImageProcessorPil(size={"shortest_edge": 24}, crop_size=SQUARE),
    ],
    ids=["bilinear", "bicubic", "lanczos", "nearest", "crop", "shorter side, crop", "video"],
)
def test_the_pixels_are_the_library_s_own(processor, size, tmp_path):
    image = photograph(size)
    preprocessing = image_details(folder_of(processor, tmp_path / "theirs"), SHAPE)["preprocessing"]
    frames = [image] if "Video" in type(processor).__name__ else image
    wanted = np.asarray(processor(frames, return_tensors="np")["pixel_values"]).reshape(SHAPE)
    found = pixels_from_image(image, json.loads(json.dumps(preprocessing)))
    step = max(preprocessing["scale"] / deviation for deviation in preprocessing["deviation"])
    assert found.shape == SHAPE
    assert np.abs(found - wanted).max() <= 1e-3 * step
    other = {**preprocessing, "resample": "nearest" if preprocessing["resample"] != "nearest" else "bicubic"}
    assert np.abs(pixels_from_image(image, other) - wanted).max() > step


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            {"feature_extractor_type": "ViTFeatureExtractor", "size": 24, "do_resize": True, "resample": 2},
            {"size": [24, 24], "resample": "bilinear"},
        ),
        (
            {"feature_extractor_type": "DeiTFeatureExtractor", "size": 26, "crop_size": 24},
            {"size": [26, 26], "resample": "bicubic", "crop": [24, 24]},
        ),
        ({"feature_extractor_type": "VideoMAEFeatureExtractor", "size": 24}, {"size": 24, "crop": [24, 24]}),
    ],
    ids=["ViT", "DeiT", "VideoMAE"],
)
def test_files_from_before_2023_are_understood(values, expected, tmp_path):
    (tmp_path / PREPROCESSOR_NAME).write_text(json.dumps(values))
    assert expected.items() <= image_details(tmp_path, SHAPE)["preprocessing"].items()


def test_a_grey_image_model_has_one_mean_and_one_deviation(tmp_path):
    folder = folder_of(ViTImageProcessorPil(size=SQUARE, image_mean=[0.25], image_std=[0.5]), tmp_path / "theirs")
    preprocessing = image_details(folder, (1, 24, 24))["preprocessing"]
    assert preprocessing["mode"] == "L"
    pixels = pixels_from_image(photograph(LANDSCAPE, "L"), preprocessing)
    assert pixels.shape == (1, 24, 24)


def test_a_folder_without_a_preprocessor_says_nothing(tmp_path):
    assert image_details(tmp_path, SHAPE) == {}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"size": {"height": 32, "width": 24}}, r"images of \[24, 24\]"),
        ({"size": {"longest_edge": 24}}, "a size of a height and a width"),
        ({"do_resize": False}, "images that are resized"),
        ({"resample": 4}, "resample, one of"),
        ({"image_mean": [0.5, 0.5]}, "image_mean of 3 numbers"),
        ({"do_pad": True}, "do_pad"),
    ],
    ids=str,
)
def test_what_is_not_done_here_is_refused(changes, expected, tmp_path):
    folder = folder_of(ViTImageProcessorPil(size=SQUARE), tmp_path / "theirs", **changes)
    with pytest.raises(ConfigError, match=expected):
        image_details(folder, SHAPE)


@pytest.mark.parametrize("text", ["[]", "{"])
def test_a_damaged_file_is_refused_by_name(text, tmp_path):
    (tmp_path / PREPROCESSOR_NAME).write_text(text)
    with pytest.raises(ArtefactError, match=PREPROCESSOR_NAME):
        image_details(tmp_path, SHAPE)


def test_a_processor_of_images_and_texts_says_it_first(tmp_path):
    folder = folder_of(ViTImageProcessorPil(size=SQUARE, resample=3), tmp_path)
    alone = image_details(folder, SHAPE)
    values = {**json.loads((folder / PREPROCESSOR_NAME).read_text()), "resample": 0}
    both = folder / PROCESSOR_NAME
    both.write_text(json.dumps({"processor_class": "TrOCRProcessor"}))
    assert image_details(folder, SHAPE) == alone
    both.write_text(json.dumps({"processor_class": "TrOCRProcessor", "image_processor": values}))
    assert image_details(folder, SHAPE)["preprocessing"]["resample"] == "nearest"
    (folder / PREPROCESSOR_NAME).unlink()
    assert image_details(folder, SHAPE) == {"preprocessing": {**alone["preprocessing"], "resample": "nearest"}}
