"""An imported preprocessor's configuration, read by ours and followed by our client, makes the library's own pixels."""

import json

import numpy as np
import pytest
from PIL import Image
from transformers.models.bit.image_processing_pil_bit import BitImageProcessorPil
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
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


@pytest.mark.planted
@pytest.mark.parametrize("field", ["", "size", "image_mean", "image_std", "resample", "do_center_crop", "crop_size"])
@pytest.mark.parametrize(
    "processor", [ViTImageProcessorPil, DeiTImageProcessorPil, BitImageProcessorPil, CLIPImageProcessorPil], ids=str
)
def test_what_a_file_leaves_out_is_that_processors_own(processor, field, tmp_path):
    folder = folder_of(processor(), tmp_path / "theirs")
    values = json.loads((folder / PREPROCESSOR_NAME).read_text())
    kept = {name: one for name, one in values.items() if name.endswith("_type") or (field and name != field)}
    (folder / PREPROCESSOR_NAME).write_text(json.dumps(kept))
    image, shape = photograph(LANDSCAPE), (3, 224, 224)
    wanted = np.asarray(processor.from_pretrained(folder)(image, return_tensors="np")["pixel_values"]).reshape(shape)
    found = pixels_from_image(image, image_details(folder, shape)["preprocessing"])
    assert np.abs(found - wanted).max() <= 1e-3 * 4


@pytest.mark.parametrize("field", ["do_rescale", "do_normalize", "do_center_crop", "default_to_square"])
@pytest.mark.parametrize("processor", [ViTImageProcessorPil, DeiTImageProcessorPil, CLIPImageProcessorPil], ids=str)
def test_a_null_switches_a_step_off(processor, field, tmp_path):
    size = {"size": SQUARE, "crop_size": SQUARE}
    folder = folder_of(processor(**size), tmp_path / "theirs", **{field: None})
    wanted = np.asarray(processor.from_pretrained(folder)(photograph(LANDSCAPE), return_tensors="np")["pixel_values"])
    found = pixels_from_image(photograph(LANDSCAPE), image_details(folder, SHAPE)["preprocessing"])
    assert np.abs(found - wanted[0]).max() <= 1e-4 * np.abs(wanted).max()


@pytest.mark.planted
@pytest.mark.parametrize("size", [LANDSCAPE, PORTRAIT, SMALL], ids=str)
@pytest.mark.parametrize("side", [11, 20, 23])
def test_a_crop_larger_than_the_image_is_black_around_it(side, size, tmp_path):
    processor = DeiTImageProcessorPil(size={"height": side, "width": 29}, crop_size=SQUARE)
    preprocessing = image_details(folder_of(processor, tmp_path / "theirs"), SHAPE)["preprocessing"]
    wanted = processor(photograph(size), return_tensors="np")["pixel_values"][0]
    assert np.abs(pixels_from_image(photograph(size), preprocessing) - wanted).max() <= 1e-3 * 2 / 255


@pytest.mark.parametrize(("model_type", "size"), [("deit", [256, 256]), ("timesformer", 224), ("vit", [224, 224])])
def test_a_file_that_names_no_processor_means_the_models(model_type, size, tmp_path):
    (tmp_path / PREPROCESSOR_NAME).write_text("{}")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}))
    assert image_details(tmp_path, (3, 224, 224))["preprocessing"]["size"] == size


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
        (
            {"feature_extractor_type": "VideoMAEFeatureExtractor", "size": 24, "crop_size": 24},
            {"size": 24, "crop": [24, 24]},
        ),
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
        ({"resample": [None]}, "resample, one of"),
        ({"image_mean": [0.5, 0.5]}, "image_mean of 3 numbers"),
        ({"do_pad": True}, "do_pad"),
        ({"image_processor_type": "LevitImageProcessor"}, "LevitImageProcessor"),
        ({"resample": [3]}, "resample, one of"),
        ({"size": {"shortest_edge": "x"}}, "a size of a height and a width"),
        ({"size": 10**9}, "a size of a height and a width"),
        ({"image_std": [0.5, 0.0, 0.5]}, "image_std of 3 numbers"),
        ({"image_mean": ["a", 0.5, 0.5]}, "image_mean of 3 numbers"),
        ({"rescale_factor": "x"}, "rescale_factor, a number"),
        ({"rescale_factor": None}, "rescale_factor, a number"),
        ({"image_std": None}, "image_std of 3 numbers"),
        ({"size": None}, "a size of a height and a width"),
        ({"resample": None}, "resample, one of"),
        ({"do_resize": None}, "images that are resized"),
    ],
    ids=str,
)
def test_what_is_not_done_here_is_refused(changes, expected, tmp_path):
    folder = folder_of(ViTImageProcessorPil(size=SQUARE), tmp_path / "theirs", **changes)
    with pytest.raises(ConfigError, match=expected):
        image_details(folder, SHAPE)


def test_a_model_of_neither_one_channel_nor_three_is_refused(tmp_path):
    folder = folder_of(ViTImageProcessorPil(size=SQUARE), tmp_path / "theirs")
    with pytest.raises(ConfigError, match=r"images of \[1, 3\] channels"):
        image_details(folder, (2, 24, 24))


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
