import asyncio
import tempfile

import pytest
from starlette.requests import Request

from attendant.errors import InputError
from serving.gateway.schemas.native import ClassificationRequest
from serving.gateway.uploads import read_upload

FORM = (
    b'--xx\r\nContent-Disposition: form-data; name="model"\r\n\r\nvit\r\n'
    b'--xx\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\npixels\r\n--xx--\r\n'
)


def form(content_type, body=FORM):
    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    headers = [(b"content-type", content_type.encode())]
    return Request({"type": "http", "method": "POST", "headers": headers}, receive)


def read(content_type):
    return asyncio.run(read_upload(form(content_type), ClassificationRequest))


@pytest.mark.parametrize("charset", ["", "; charset=UTF-8", '; charset="utf8"'])
def test_a_form_is_read_in_utf8(charset):
    body, image = read(f"multipart/form-data; boundary=xx{charset}")
    assert (body.model, image) == ("vit", b"pixels")


@pytest.mark.parametrize("charset", ["punycode", "undefined", "idna", "utf-16", "no such", ""])
def test_no_other_codec_of_python_reads_a_form(charset):
    with pytest.raises(InputError, match="a form in UTF-8"):
        read(f'multipart/form-data; boundary=xx; charset="{charset}"')


@pytest.mark.planted
def test_a_large_image_needs_no_room_for_temporary_files(monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/dev/null/none")
    image = bytes(3 << 20)
    request = form("multipart/form-data; boundary=xx", FORM.replace(b"pixels", image))
    assert asyncio.run(read_upload(request, ClassificationRequest))[1] == image
