import base64
import io

import pytest
from PIL import Image

from attendant.errors import InputError
from serving.gateway.images import FORMATS, bytes_of_base64, opened_image
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
