import asyncio
import base64
import io
import struct
import zlib
from dataclasses import replace

import pytest
from PIL import Image

from attendant.errors import InputError
from clients.served_model import ServedModel
from serving.gateway.budgets import Budget
from serving.gateway.images import AT_ONCE_PIXELS, FORMATS, bytes_of_base64, opened_image, pixels_of
from serving.gateway.settings import GatewaySettings

SETTINGS = GatewaySettings(image_bytes=5_000, image_pixels=10_000)


def packed(kind, side=20):
    buffer = io.BytesIO()
    Image.new("RGB", (side, side)).save(buffer, kind)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", FORMATS)
def test_the_usual_formats_are_opened(kind):
    assert opened_image(packed(kind), SETTINGS).size == (20, 20)


@pytest.mark.parametrize("kind", ["TIFF", "PPM", "ICO"])
def test_other_formats_are_refused(kind):
    with pytest.raises(InputError, match="PNG, JPEG"):
        opened_image(packed(kind), SETTINGS)


def test_too_many_bytes_or_pixels_are_refused_before_anything_is_decoded():
    with pytest.raises(InputError, match="5000 bytes"):
        opened_image(packed("BMP", 50), SETTINGS)
    header = packed("PNG", 101)[:60]  # all that is needed to know
    with pytest.raises(InputError, match="101 × 101"):
        opened_image(header, SETTINGS)


def test_a_jpeg_that_walks_its_pixels_again_and_again_is_refused():
    buffer = io.BytesIO()
    Image.effect_noise((40, 40), 90).convert("RGB").save(buffer, "JPEG", progressive=True)
    usual, end = buffer.getvalue(), b"\xff\xd9"
    image = opened_image(usual, SETTINGS)
    image.load()
    last_scan = usual[usual.rindex(b"\xff\xda") :].removesuffix(end)
    with pytest.raises(InputError, match=r"at most 50 scans.*found 6"):
        opened_image(usual.removesuffix(end) + 50 * last_scan + end, replace(SETTINGS, image_bytes=1 << 20))


def test_so_is_one_of_several_pictures():
    buffer = io.BytesIO()
    noise = Image.effect_noise((40, 40), 90).convert("RGB")
    noise.save(buffer, "MPO", save_all=True, append_images=[noise], progressive=True)
    several = buffer.getvalue()
    assert opened_image(several, replace(SETTINGS, image_bytes=1 << 20)).format == "MPO"
    first_end = several.index(b"\xff\xd9")
    last_scan = several[several.rindex(b"\xff\xda", 0, first_end) : first_end]
    with pytest.raises(InputError, match="at most 50 scans"):
        opened_image(several[:first_end] + 50 * last_scan + several[first_end:], replace(SETTINGS, image_bytes=1 << 20))


def test_a_png_of_many_colour_profiles_is_refused_before_any_is_unpacked():
    kind, zeros = b"iCCP", zlib.compress(bytes(1_000_000))
    content = b"a\0\0" + zeros
    chunk = struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    plain, many = packed("PNG"), replace(SETTINGS, image_bytes=1 << 20)
    assert opened_image(plain[:33] + chunk + plain[33:], many).size == (20, 20)
    with pytest.raises(InputError, match=r"at most 8 colour profiles; found 500"):
        opened_image(plain[:33] + 500 * chunk + plain[33:], many)


def test_what_pillow_takes_for_a_bomb_is_refused(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(InputError, match="10000 pixels"):
        opened_image(packed("PNG"), SETTINGS)


@pytest.mark.parametrize("data", [b"", b"GIF89a", b"\x89PNG\r\n\x1a\n" + b"\0" * 30, b"BM" + b"\xff" * 60])
def test_damaged_files_are_the_requests_error(data):
    with pytest.raises(InputError, match="an image file"):
        opened_image(data, SETTINGS)


def test_base64_may_be_a_data_url():
    text = base64.b64encode(b"abc").decode()
    assert bytes_of_base64(text) == bytes_of_base64(f"data:image/png;base64,{text}") == b"abc"
    with pytest.raises(InputError, match="base64"):
        bytes_of_base64("data:text/html;base64,YWJj")


@pytest.mark.parametrize(
    ("preprocessing", "sides", "taken"),
    [
        ({"size": [20, 20]}, (20, 20), 400),
        ({"size": [300, 300]}, (-1, -1), 90_000),
        ({"size": 80, "crop": [20, 20]}, (20, 20), 6400),
    ],
)
def test_an_image_counts_as_large_as_it_is_made(preprocessing, sides, taken):
    budget, settings = Taken(), GatewaySettings(image_pixels=100_000)
    pixels = asyncio.run(pixels_of(packed("PNG"), served(preprocessing, sides), settings, budget))
    assert pixels.shape[0] == 3 and budget.parts == ([taken] if taken > AT_ONCE_PIXELS else [])


@pytest.mark.parametrize(
    ("preprocessing", "sides", "message"),
    [
        ({"size": [9000, 9000]}, (20, 20), "which the model takes"),
        ({"size": [4000, 4000]}, (-1, -1), "at most 100000 pixels"),
    ],
)
def test_what_a_model_would_make_of_a_small_image_is_bounded(preprocessing, sides, message):
    with pytest.raises(InputError, match=message):
        asyncio.run(
            pixels_of(packed("PNG"), served(preprocessing, sides), GatewaySettings(image_pixels=100_000), Taken())
        )


class Taken(Budget):
    """A budget that notes what is taken of it."""

    def __init__(self):
        super().__init__(10**6)
        self.parts = []

    def take(self, amount):
        self.parts.append(amount)
        return super().take(amount)


def served(preprocessing, sides):
    prepared = {"mode": "RGB", "resample": "nearest", "scale": 1.0, "mean": [0.0], "deviation": [1.0], **preprocessing}
    return ServedModel(
        name="one",
        decoupled=False,
        max_batch=1,
        inputs={"pixels": (3, *sides)},
        outputs={},
        dtypes={"pixels": "float32"},
        parameters={"preprocessing": prepared},
    )
