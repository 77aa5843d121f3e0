"""How many images of a model's size a gateway holds, whatever number of small files comes at once."""

import asyncio
import base64
import io
import json

import numpy as np
import pytest
from PIL import Image

from serving.gateway.images import Images
from serving.gateway.upstream import server as upstream_server
from tests.serving.gateway.fake_triton import GREY, FakeTriton, config_of, delta, floats, gateway_of

SIDE, CANARY = 16, 8


def small_image():
    file = io.BytesIO()
    Image.new("L", (4, 4), 128).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


class Counting(FakeTriton):
    """Attributes: most images that were under way at once."""

    def __init__(self):
        preprocessing = json.dumps({**GREY, "size": [SIDE, SIDE]})
        pixels, logits = ("pixels", (1, SIDE, SIDE)), ("logits", (3,))
        super().__init__(config_of("vit", "classify", [pixels], [logits], 32, preprocessing=preprocessing))
        self.under_way = self.most = 0

    async def infer(self, request):
        images = request.inputs[0].shape[0]
        self.under_way += images
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0.1)
        self.under_way -= images
        return {"logits": floats(np.zeros((images, 3)))}


@pytest.mark.planted
@pytest.mark.parametrize(
    ("path", "requests", "most"),
    [("/v1/explain", 12, 4 * 32), ("/v1/classify", 100, 64)],
)
def test_images_of_one_model_are_answered_in_turn(path, requests, most):
    async def ask():
        server = Counting()
        async with gateway_of(server) as client:
            body = {"model": "vit", "image": small_image()}
            answers = await asyncio.gather(*(client.post(path, json=body) for _ in range(requests)))
        assert {answer.status_code for answer in answers} == {200}
        assert server.most <= most + CANARY

    asyncio.run(ask())


class Exchanged(FakeTriton):
    """Of which a model is loaded anew, from another artefact, while an image for it waits for its turn."""

    def __init__(self):
        pixels, logits = ("pixels", (1, SIDE, SIDE)), ("logits", (2,))
        grey = json.dumps({**GREY, "size": [SIDE, SIDE]})
        white = json.dumps({**GREY, "size": [SIDE, SIDE], "mean": [-1.0]})
        self.old, self.new = (
            config_of("vit", "classify", [pixels], [logits], 32, preprocessing=one, labels=json.dumps(labels))
            for one, labels in ((grey, ["a", "b"]), (white, ["c", "d"]))
        )
        super().__init__(self.old)
        self.seen = []

    async def infer(self, request):
        self.seen.append(float(np.frombuffer(request.raw_input_contents[0], np.float32).max()))
        return {"logits": floats(np.array([[1.0, 0.0]] * request.inputs[0].shape[0]))}


@pytest.mark.planted
@pytest.mark.parametrize("path", ["/v1/classify", "/v1/explain"])
def test_an_image_is_prepared_for_what_the_model_is_once_it_is_ready(path, monkeypatch):
    monkeypatch.setattr(upstream_server, "FRESH_S", 0.0)
    server, decode = Exchanged(), Images.pixels

    async def decode_while_it_is_exchanged(self, *arguments):
        pixels = await decode(self, *arguments)
        server.configs = {"vit": server.new}
        return pixels

    async def ask():
        async with gateway_of(server) as client:
            monkeypatch.setattr(Images, "pixels", decode_while_it_is_exchanged)
            server.seen.clear()
            body = {"model": "vit", "image": small_image()}
            return (await client.post(path, json=body | ({"kind": "occlusion"} if "explain" in path else {}))).json()

    answer = asyncio.run(ask())
    assert answer["labels"][0]["label"] == "c"
    assert max(server.seen) > 1.0, "prepared as the new one wants it"


class Captioner(FakeTriton):
    """Of images, with few places."""

    def __init__(self):
        grey = json.dumps({**GREY, "size": [SIDE, SIDE]})
        bounds = {"max_num_seqs": "1", "max_queue_size": "1", "max_length": "8"}
        config = config_of("cap", "caption", [("pixels", (1, SIDE, SIDE))], [], 0, preprocessing=grey, **bounds)
        super().__init__(config, deltas=[delta("a")])


@pytest.mark.planted
def test_images_that_wait_to_be_decoded_take_no_place_of_their_model(monkeypatch):
    decode = Images.pixels

    async def ask():
        gate, waiting = asyncio.Event(), []

        async def late(self, data, model, owner):
            if not gate.is_set() and len(waiting) < 6:
                waiting.append(owner)
                await gate.wait()
            return await decode(self, data, model, owner)

        async with gateway_of(Captioner()) as client:
            monkeypatch.setattr(Images, "pixels", late)
            body = {"model": "cap", "image": small_image()}
            many = [asyncio.ensure_future(client.post("/v1/caption", json=body)) for _ in range(6)]
            while len(waiting) < 6:
                await asyncio.sleep(0.01)
            other = await client.post("/v1/caption", json=body)
            gate.set()
            await asyncio.gather(*many)
            return other

    assert asyncio.run(ask()).status_code == 200


def test_the_time_of_a_caption_begins_when_its_image_comes(monkeypatch):
    decode = Images.pixels

    async def late(self, *arguments):
        await asyncio.sleep(0.3)
        return await decode(self, *arguments)

    async def ask():
        server = Captioner()
        async with gateway_of(server) as client:
            monkeypatch.setattr(Images, "pixels", late)
            await client.post("/v1/caption", json={"model": "cap", "image": small_image(), "deadline_ms": 1000})
        (request,) = server.requests[-1:]
        return request

    request = asyncio.run(ask())
    place = [one.name for one in request.inputs].index("deadline_ms")
    left = int(np.frombuffer(request.raw_input_contents[place], request.inputs[place].datatype.lower())[0])
    assert 0 < left <= 700
