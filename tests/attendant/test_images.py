import os

import numpy as np
import pytest
from PIL import ExifTags, Image, ImageOps

from attendant.errors import InputError
from attendant.images import pixels_from_file, pixels_from_image, require_fitting_size

DIGITS = {"mode": "L", "size": [8, 8], "resample": "bilinear", "scale": 1 / 255, "mean": [0.0], "deviation": [1.0]}
COLOUR = {**DIGITS, "mode": "RGB", "size": [4, 6], "mean": [0.5, 0.25, 0.0], "deviation": [0.5, 0.5, 2.0]}


def test_an_image_of_the_right_size_is_only_scaled():
    values = np.arange(64, dtype=np.uint8).reshape(8, 8) * 4
    pixels = pixels_from_image(Image.fromarray(values), DIGITS)
    assert pixels.dtype == np.float32
    np.testing.assert_allclose(pixels, values[None] / 255, atol=1e-7)


def test_channels_come_first_and_each_has_its_mean_and_deviation():
    image = Image.new("RGB", (6, 4), (255, 0, 51))
    pixels = pixels_from_image(image, COLOUR)
    assert pixels.shape == (3, 4, 6)
    np.testing.assert_allclose(pixels[:, 0, 0], [(1 - 0.5) / 0.5, -0.25 / 0.5, 0.2 / 2], rtol=1e-6)


@pytest.mark.parametrize("odd", [{"scale": [[]]}, {"mean": "x"}, {"deviation": [1.0, 2.0]}, {"mean": None}])
def test_numbers_that_are_none_for_the_channels_are_refused(odd):
    with pytest.raises(InputError, match="preprocessing by numbers for 3 channels"):
        pixels_from_image(Image.new("RGB", (6, 4)), COLOUR | odd)


def test_size_is_height_then_width(tmp_path):
    Image.new("L", (30, 20)).save(tmp_path / "x.png")
    assert pixels_from_file(tmp_path / "x.png", {**DIGITS, "size": [5, 9]}).shape == (1, 5, 9)


@pytest.mark.parametrize("contents", [b"no image", b"", b"\x89PNG\r\n\x1a\n truncated"])
def test_a_file_that_is_no_image_is_refused_by_name(tmp_path, contents):
    (tmp_path / "x.png").write_bytes(contents)
    with pytest.raises(InputError, match=r"an image file at .*x\.png"):
        pixels_from_file(tmp_path / "x.png", DIGITS)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "x.png")
    with pytest.raises(InputError, match="is no file"):
        pixels_from_file(tmp_path / "x.png", DIGITS)


def test_a_missing_file_is_refused_by_name(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        pixels_from_file(tmp_path / "x.png", DIGITS)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("orientation", range(10))
def test_an_image_is_turned_as_its_file_says(orientation, kind, tmp_path):
    image = Image.fromarray(np.random.default_rng(0).integers(0, 255, (9, 14, 3), dtype=np.uint8))
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    image.save(tmp_path / "x", kind, exif=exif)
    with Image.open(tmp_path / "x") as saved:
        shown = ImageOps.exif_transpose(saved)
    for preprocessing in (COLOUR, {**COLOUR, "size": 7, "crop": [4, 6]}):
        np.testing.assert_array_equal(
            pixels_from_file(tmp_path / "x", preprocessing), pixels_from_image(shown, preprocessing)
        )


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")  # which Pillow says as it opens the file
@pytest.mark.parametrize(
    "exif", [b"Exif\0\0", b"Exif\0\0II*\0\xff\xff\xff\xff", b"x", b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x02"]
)
def test_what_is_no_orientation_turns_nothing(exif, tmp_path):
    image = Image.new("RGB", (6, 4), (255, 0, 51))
    image.save(tmp_path / "x.jpg", exif=exif, quality=100)
    image.save(tmp_path / "plain.jpg", quality=100)
    np.testing.assert_array_equal(
        pixels_from_file(tmp_path / "x.jpg", COLOUR), pixels_from_file(tmp_path / "plain.jpg", COLOUR)
    )


def test_levels_of_16_bits_are_those_of_8_that_are_nearest(tmp_path):
    levels = np.linspace(0, 65535, 64).round().astype(np.uint16).reshape(8, 8)
    Image.fromarray(levels).save(tmp_path / "x.png")
    found = pixels_from_file(tmp_path / "x.png", DIGITS)
    np.testing.assert_array_equal((found[0] * 255).round(), (levels / 257).round())


@pytest.mark.parametrize("sides", [(1, 65), (65, 1)])
def test_a_line_of_pixels_is_refused_where_its_shorter_side_is_brought_to_a_size(sides):
    shorter_side = {**DIGITS, "size": 8, "crop": [8, 8]}
    assert pixels_from_image(Image.new("L", (2, 128)), shorter_side).shape == (1, 8, 8)
    with pytest.raises(InputError, match="at most 1 to 64"):
        pixels_from_image(Image.new("L", sides), shorter_side)


@pytest.mark.parametrize(
    ("preprocessing", "sides"),
    [
        ({"size": [8, 8]}, (8, 8)),
        ({"size": [8, 12]}, (-1, -1)),
        ({"size": 8}, (8, 12)),
        ({"size": 256, "crop": [224, 224]}, (224, 224)),
        ({"size": [256, 300], "crop": [224, 224]}, (224, -1)),
    ],
)
def test_preprocessing_to_what_a_model_takes_is_followed(preprocessing, sides):
    require_fitting_size(preprocessing, sides)


@pytest.mark.parametrize(
    ("preprocessing", "sides"),
    [
        ({"size": [9000, 9000]}, (8, 8)),
        ({"size": [9000, 9000], "crop": [8, 8]}, (8, 8)),
        ({"size": 9000, "crop": [8, 8]}, (8, 8)),
        ({"size": 9000}, (8, 8)),
        ({"size": [8, 9000]}, (-1, -1)),
        ({"size": [8, 8], "crop": [4, 4]}, (8, 8)),
        ({"size": [8, -8]}, (-1, -1)),
        ({"size": [8]}, (8, 8)),
        ({"size": "8"}, (8, 8)),
        ({}, (8, 8)),
    ],
)
def test_preprocessing_to_more_than_a_model_takes_is_refused(preprocessing, sides):
    with pytest.raises(InputError, match="preprocessing to"):
        require_fitting_size(preprocessing, sides)
