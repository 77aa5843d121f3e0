"""Images of strangers, as requests have them decoded: in this process where they are tiny, and in others of bounds."""

import asyncio
import base64
import io
import os
import signal
import struct
import time
import zlib
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from attendant.errors import InputError, LostError, ServerError
from clients.images import image_pixels
from clients.served_model import ServedModel
from serving.gateway import bounded_workers
from serving.gateway.image_process import FORMATS, open_image
from serving.gateway.images import AT_ONCE_BYTES, AT_ONCE_PIXELS, LONGEST_S, Images, bytes_of_base64
from serving.gateway.settings import GatewaySettings
from tests.serving.gateway.test_chat_templates import renderers_of

SETTINGS = GatewaySettings(image_bytes=5_000, image_pixels=10_000)
USUAL = GatewaySettings()
PLAIN = {"size": [20, 20]}


def packed(kind, side=20):
    buffer = io.BytesIO()
    Image.new("RGB", (side, side)).save(buffer, kind)
    return buffer.getvalue()


def noise(side, **saved):
    buffer = io.BytesIO()
    Image.effect_noise((side, side), 90).convert("RGB").save(buffer, **saved)
    return buffer.getvalue()


def decoded(data, model=None, settings=USUAL):
    async def decode():
        with closing(Images(settings)) as images:
            return await images.pixels(data, model or served(PLAIN, (20, 20)), "me")

    return asyncio.run(decode())


@pytest.mark.parametrize("kind", FORMATS)
def test_the_usual_formats_are_opened(kind):
    assert open_image(packed(kind), 400).size == (20, 20)


@pytest.mark.parametrize("kind", ["TIFF", "PPM", "ICO"])
def test_other_formats_are_refused(kind):
    with pytest.raises(InputError, match="PNG, JPEG"):
        decoded(packed(kind))


def test_too_many_bytes_or_pixels_are_refused_before_anything_is_decoded():
    with pytest.raises(InputError, match="5000 bytes"):
        decoded(packed("BMP", 50), settings=SETTINGS)
    header = packed("PNG", 101)[:60]  # all that is needed to know
    with pytest.raises(InputError, match="101 × 101"):
        decoded(header, settings=SETTINGS)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("side", [8, 200])
def test_an_image_is_decoded_as_the_model_wants_it_in_another_process_too(kind, side):
    data, model = noise(side, format=kind), served(PLAIN, (20, 20))
    assert (len(data) > AT_ONCE_BYTES or side * side > AT_ONCE_PIXELS) == (side == 200)
    pixels = decoded(data, model)
    # The same computation twice, in two processes.
    np.testing.assert_array_equal(pixels, image_pixels(model, Image.open(io.BytesIO(data))))
    assert pixels.dtype == np.float32


def png_chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def jpeg_of_scans():
    buffer, end = io.BytesIO(), b"\xff\xd9"
    Image.new("L", (1000, 1000), 90).save(buffer, "JPEG", progressive=True)
    usual = buffer.getvalue()
    last_scan = usual[usual.rindex(b"\xff\xda") :].removesuffix(end)
    return usual.removesuffix(end) + 5_000 * last_scan + end


def jpeg_of_exif():
    segment = b"\xff\xe1" + struct.pack(">H", 18) + b"Exif\0\0" + bytes(10)
    return b"\xff\xd8" + 480_000 * segment + noise(16, format="JPEG")[2:]


def png_of_profiles():
    profile = png_chunk(b"iCCP", b"a\0\0" + zlib.compress(bytes(1 << 20)))
    plain = packed("PNG")
    return plain[:33] + 8_000 * profile + plain[33:]


def png_of_texts():
    text = png_chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes((1 << 20) - 1))[:-4] + b"oops")
    plain = packed("PNG")
    return plain[:33] + 8_000 * text + plain[33:]


@pytest.mark.planted
@pytest.mark.parametrize("make", [jpeg_of_scans, jpeg_of_exif, png_of_profiles, png_of_texts])
def test_an_image_that_takes_too_much_to_decode_is_refused_and_the_next_one_is_not(make):
    dear, model = make(), served(PLAIN, (20, 20))

    async def ask():
        with closing(Images(GatewaySettings(image_pixels=1_000_000))) as images:  # half a second of a processor each
            with pytest.raises(InputError, match=r"that is decoded within 0\.5 s of a processor"):
                await images.pixels(dear, model, "me")
            return await images.pixels(noise(90, format="PNG"), model, "me")

    assert asyncio.run(ask()).shape == (3, 20, 20)


@pytest.mark.planted
def test_others_wait_for_no_image_of_somebody_who_sends_many():
    dear, model = png_of_texts(), served(PLAIN, (20, 20))

    async def ask():
        with closing(Images(GatewaySettings(image_pixels=10_000))) as images:
            many = [asyncio.ensure_future(images.pixels(dear, model, "somebody")) for _ in range(12)]
            await asyncio.sleep(0)
            await images.pixels(noise(90, format="PNG"), model, "me")
            ended = sum(one.done() for one in many)
            for one in many:
                one.cancel()
            await asyncio.gather(*many, return_exceptions=True)
            return ended

    assert asyncio.run(ask()) <= 1  # a process takes a while to start


def test_a_film_behind_the_end_of_a_photo_is_nothing_to_us():
    photo = noise(90, format="JPEG")
    film = np.random.default_rng(0).bytes(6_000_000)  # what phones append: markers of scans are in it, in plenty
    np.testing.assert_array_equal(decoded(photo + film), decoded(photo))


def test_a_process_that_somebody_ends_is_started_anew():
    async def ask():
        with closing(Images(USUAL)) as images:
            model, data = served(PLAIN, (20, 20)), noise(200, format="PNG")
            first = await images.pixels(data, model, "me")
            for process in renderers_of("serve_images"):
                os.kill(process, signal.SIGKILL)
            again = await images.pixels(data, model, "me")
        return first, again

    first, again = asyncio.run(ask())
    np.testing.assert_array_equal(first, again)
    began_s = time.monotonic()
    while renderers_of("serve_images"):
        assert time.monotonic() - began_s < 30


def ask_again_after(what):
    """The pixels of an image before and after something is done to the processes that decode."""

    async def ask():
        with closing(Images(USUAL)) as images:
            model, data = served(PLAIN, (20, 20)), noise(200, format="PNG")
            first = await asyncio.gather(*(images.pixels(data, model, "me") for _ in range(4)))
            what()
            began_s = time.monotonic()
            again = await asyncio.gather(*(images.pixels(data, model, "me") for _ in range(4)))
        for one in (*first, *again):
            np.testing.assert_array_equal(one, first[0])
        return time.monotonic() - began_s

    return asyncio.run(ask())


@pytest.mark.planted
@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGSEGV, signal.SIGALRM, signal.SIGPROF, signal.SIGTERM])
def test_an_image_is_not_blamed_for_the_end_of_a_process_that_had_no_work(number):
    def end():
        ended = renderers_of("serve_images")
        for process in ended:
            os.kill(process, number)
        began_s = time.monotonic()
        while any(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z" for process in ended):
            assert time.monotonic() - began_s < 30

    ask_again_after(end)


@pytest.mark.planted
def test_processes_that_somebody_stops_are_replaced_before_their_time_by_the_clock_is_over():
    def stop():
        for process in renderers_of("serve_images"):
            os.kill(process, signal.SIGSTOP)

    assert ask_again_after(stop) < LONGEST_S


@pytest.mark.planted
def test_the_rest_of_an_answer_that_could_not_be_read_is_nobody_elses(monkeypatch):
    receive, lacking = Connection.recv_bytes, [True]

    def recv_bytes(connection, *most):
        if lacking:
            lacking.clear()
            os.read(connection.fileno(), 2)  # the beginning is read, and then there is no memory
            raise MemoryError
        return receive(connection, *most)

    async def ask():
        with closing(Images(USUAL)) as images:
            model, data = served(PLAIN, (20, 20)), noise(200, format="PNG")
            monkeypatch.setattr(Connection, "recv_bytes", recv_bytes)
            with pytest.raises(MemoryError):
                await images.pixels(data, model, "me")
            answers = [await images.pixels(data, model, "me") for _ in range(6)]
        for answer in answers:
            np.testing.assert_array_equal(answer, image_pixels(model, Image.open(io.BytesIO(data))))

    asyncio.run(ask())


@pytest.mark.planted
def test_where_no_process_can_be_started_it_is_an_error_that_asks_to_try_again(monkeypatch):
    def start(*names):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(bounded_workers, "start_python", start)
    with pytest.raises(LostError, match="ask again"):
        decoded(noise(200, format="PNG"))


@pytest.mark.parametrize("data", [packed("PNG"), noise(200, format="PNG")], ids=["tiny", "large"])
def test_a_configuration_that_is_none_of_ours_is_the_servers_error(data):
    with pytest.raises(ServerError, match="as Attendant lays models out"):
        decoded(data, served({"size": [20, 20], "resample": 3}, (20, 20)))


def test_what_pillow_takes_for_a_bomb_is_refused(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(InputError, match="10000 pixels"):
        open_image(packed("PNG"), 10_000)


@pytest.mark.parametrize("data", [b"", b"GIF89a", b"\x89PNG\r\n\x1a\n" + b"\0" * 30, b"BM" + b"\xff" * 60])
def test_damaged_files_are_the_requests_error(data):
    with pytest.raises(InputError, match="an image file"):
        decoded(data)


def test_base64_may_be_a_data_url():
    text = base64.b64encode(b"abc").decode()
    assert bytes_of_base64(text) == bytes_of_base64(f"data:image/png;base64,{text}") == b"abc"
    with pytest.raises(InputError, match="base64"):
        bytes_of_base64("data:text/html;base64,YWJj")


@pytest.mark.parametrize(
    ("preprocessing", "sides"),
    [({"size": [20, 20]}, (20, 20)), ({"size": [300, 300]}, (-1, -1)), ({"size": 80, "crop": [20, 20]}, (20, 20))],
)
def test_an_image_is_made_as_large_as_the_model_wants_it(preprocessing, sides):
    pixels = decoded(packed("PNG"), served(preprocessing, sides), GatewaySettings(image_pixels=100_000))
    assert pixels.shape == (3, *(preprocessing.get("crop") or preprocessing["size"]))


@pytest.mark.parametrize(
    ("preprocessing", "sides", "message"),
    [
        ({"size": [9000, 9000]}, (20, 20), "which the model takes"),
        ({"size": [4000, 4000]}, (-1, -1), "at most 100000 pixels"),
    ],
)
def test_what_a_model_would_make_of_a_small_image_is_bounded(preprocessing, sides, message):
    with pytest.raises(InputError, match=message):
        decoded(packed("PNG"), served(preprocessing, sides), GatewaySettings(image_pixels=100_000))


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
