"""Models that take the bytes of images, behind a real Triton: the same answers, and a canary that is right."""

import asyncio
import shutil
from pathlib import Path

import numpy as np
import pytest

from attendant.errors import InputError
from attendant.images import pixels_from_file
from attendant.manifest import Manifest
from attendant.tensor_names import LOGITS, PIXELS
from clients.caption import Captioner
from clients.classify import Classifier
from clients.health import health
from clients.images import file_pixels
from clients.occlusion import occlusion_maps
from clients.triton_client import TritonClient
from serving.runtime.create_runners import create_runners
from tests.end_to_end.test_imported import served

NAMES = ["digits-vit", "digits-captioner"]


@pytest.fixture(scope="module")
def server(digits_in_bytes, captioner_in_bytes, tmp_path_factory):
    place = tmp_path_factory.mktemp("uint8")
    for artefact in (digits_in_bytes, captioner_in_bytes):
        shutil.copytree(artefact, place / "artefacts" / artefact.name)
    with served(place, NAMES) as grpc:
        yield grpc


def asked(server, question):
    async def ask():
        async with TritonClient(server) as client:
            return await question(client)

    return asyncio.run(ask())


async def label(client):
    classifier = await Classifier.find(client)
    return (await classifier.classify_file("docs/examples/three.png"))[0]


async def caption(client):
    captioner = await Captioner.find(client)
    return "".join([piece.text async for piece in captioner.stream_file("docs/examples/pair.png")])


def test_an_image_file_is_sent_as_bytes_and_answered_as_ever(server):
    assert asked(server, lambda client: client.model("digits-vit")).dtypes[PIXELS] == "uint8"
    guess = asked(server, label)
    assert guess.label == "3"
    assert guess.probability > 0.8
    assert asked(server, caption) == "a three left of an eight"


def test_occlusion_blanks_bytes_too(server, digits_artefact):
    async def occluded(client):
        classifier = await Classifier.find(client)
        return await occlusion_maps(classifier, file_pixels(classifier.model, Path("docs/examples/three.png")))

    logits_K, maps_Khw = asked(server, occluded)
    runner = create_runners(digits_artefact, Manifest.read(digits_artefact))["model"]
    pixels = pixels_from_file(Path("docs/examples/three.png"), Manifest.read(digits_artefact).details["preprocessing"])
    blanked = pixels.copy()
    blanked[:, 6:8, 2:4] = 0
    whole, partly = (runner.run({PIXELS: one[None]})[LOGITS].numpy()[0].copy() for one in (pixels, blanked))
    np.testing.assert_allclose(logits_K, whole, atol=1e-4)
    np.testing.assert_allclose(maps_Khw[:, 3, 1], whole - partly, atol=1e-4)


def test_every_canary_is_right(server):
    results = asked(server, health)
    assert {result.name: (result.healthy, result.found) for result in results} == {
        "digits-vit": (True, "3"),
        "digits-captioner": (True, "a three left of an eight"),
    }


def test_floats_are_refused(server):
    async def floats(client):
        classifier = await Classifier.find(client)
        return await classifier.logits(np.zeros((1, 8, 8, 1), np.float32))

    with pytest.raises(InputError, match=r"uint8 pixels \[batch, 8, 8, 1\]"):
        asked(server, floats)
