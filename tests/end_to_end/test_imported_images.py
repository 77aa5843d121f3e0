"""Random checkpoints of images, imported, exported and served, rank classes as their library does."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from attendant.manifest import Manifest
from attendant.tensor_names import PIXELS
from clients.classify import Classifier
from clients.images import file_pixels
from clients.triton_client import TritonClient
from export.artefact.stage import export_onnx
from models.checkpoints.importers.importing import import_checkpoint
from tests.end_to_end.imported_image_models import KINDS
from tests.end_to_end.test_imported import served

TOP = 5
ONE_OF_A_KIND = ["hf-vit", "hf-timesformer", "timm-swin"]  # whole images, videos and windows
OTHERS = [name for name in KINDS if name not in ONE_OF_A_KIND]


def photograph(path):
    random = np.random.default_rng(0)
    values = random.normal(128, 60, (47, 61, 3)).clip(0, 255).astype(np.uint8)
    Image.fromarray(values).resize((610, 470), Image.Resampling.BICUBIC).save(path)
    return path


async def answers(server, name, path):
    """The pixels that were sent, and the logits that came back: of an image file, or of a random video."""
    async with TritonClient(server, timeout_s=60.0) as client:
        model = await client.model(name)
        classifier, shape = Classifier(client, model), model.inputs[PIXELS]
        if len(shape) == 3:
            pixels = file_pixels(model, path)[None]
            guesses = await classifier.classify_file(path, TOP)
        else:
            pixels = np.random.default_rng(0).normal(size=(1, *shape)).astype(np.float32)
            guesses = classifier.guesses((await classifier.logits(pixels))[0], TOP)
        return pixels, [int(guess.label) for guess in guesses], await classifier.logits(pixels)


def compare(place, names, as_published):
    saved = {name: KINDS[name].save(place / "saved" / name, as_published) for name in names}
    for name in names:
        import_checkpoint(saved[name], place / "imported" / name)
    with ThreadPoolExecutor(2) as pool:  # each export waits for a process of its own
        list(pool.map(lambda name: export_onnx(str(place / "imported" / name), place / "artefacts" / name), names))
    path = photograph(place / "photograph.png")
    with served(place, names) as server:
        found = {name: asyncio.run(answers(server, name, path)) for name in names}
    for name, (pixels, labels, logits) in found.items():
        wanted = KINDS[name].logits(saved[name], pixels)
        scale = max(1.0, float(np.abs(wanted).max()))
        np.testing.assert_allclose(logits, wanted, rtol=0, atol=(1e-3 if as_published else 1e-5) * scale, err_msg=name)
        assert labels == np.argsort(-wanted[0], kind="stable")[:TOP].tolist(), name
        assert Manifest.read(place / "artefacts" / name).task == "classify"


@pytest.mark.timeout(600)
@pytest.mark.slow
@pytest.mark.parametrize("names", [ONE_OF_A_KIND, OTHERS], ids=["one", "others"])
def test_what_every_imported_architecture_sees_when_served_is_what_its_library_sees(names, tmp_path):
    compare(tmp_path, names, as_published=False)


@pytest.mark.full_width
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", KINDS)
def test_so_it_is_at_the_width_of_published_checkpoints(name, tmp_path):
    compare(tmp_path, [name], as_published=True)
