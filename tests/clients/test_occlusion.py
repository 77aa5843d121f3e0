import asyncio
import tracemalloc
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from clients.classify import Classifier
from clients.loads import Load
from clients.occlusion import MOST_PARTS, occlusion_maps
from clients.served_model import ServedModel
from serving.gateway.routes.explanations import _occlude

SIDE, CHANNELS, MAX_BATCH = 224, 3, 64
BATCH_BYTES = 1 << 23


class Sums:
    """A classifier of one class, whose logit is the sum of the pixels."""

    def __init__(self, outputs):
        self.model = ServedModel(
            name="sums", decoupled=False, max_batch=MAX_BATCH, inputs={}, outputs=outputs, dtypes={}, parameters={}
        )
        self.under_way = 0

    async def logits(self, pixels):
        assert not self.under_way and pixels.nbytes <= BATCH_BYTES
        self.under_way += 1
        await asyncio.sleep(0)
        self.under_way -= 1
        return pixels.sum(axis=(1, 2, 3), dtype=np.float64)[:, None]

    async def load(self):
        assert not self.under_way
        return Load(self.model)


@pytest.mark.planted
def test_a_large_image_is_occluded_batch_by_batch():
    pixels = np.random.default_rng(0).random((CHANNELS, SIDE, SIDE), np.float32)
    tracemalloc.start()
    try:
        logits, maps = asyncio.run(occlusion_maps(Sums({}), pixels))
        assert tracemalloc.get_traced_memory()[1] < 3 * BATCH_BYTES
    finally:
        tracemalloc.stop()
    part = SIDE // MOST_PARTS
    sums = pixels.reshape(CHANNELS, MOST_PARTS, part, MOST_PARTS, part).sum(axis=(0, 2, 4), dtype=np.float64)
    assert np.allclose(logits, pixels.sum(dtype=np.float64), rtol=1e-9)
    assert np.allclose(maps[0], sums, rtol=1e-6)


@pytest.mark.parametrize("outputs", [{"rollout": (-1, -1)}, {"rollout": (4,)}, {"received_1": ()}])
def test_a_grid_that_is_none_is_not_taken(outputs):
    _, maps = asyncio.run(occlusion_maps(Sums(outputs), np.ones((1, 16, 16), np.float32)))
    assert maps.shape == (1, MOST_PARTS, MOST_PARTS)


class Named(Classifier):
    """Three classes of one name and another: each class's logit is the sum of one quarter, times its number."""

    def __init__(self):
        parameters = {"labels": ["crane", "crow", "crane", "crane"]}
        super().__init__(SimpleNamespace(server="here"), replace(Sums({}).model, parameters=parameters))

    async def logits(self, pixels):
        quarters = pixels.reshape(len(pixels), 2, 8, 2, 8).sum(axis=(2, 4)).reshape(len(pixels), 4)
        return (quarters * np.arange(1, 5) / 64).astype(np.float32)

    async def load(self):
        return Load(self.model)


@pytest.mark.parametrize("label", [None, "crane"])
def test_of_classes_of_one_name_each_has_its_own_map(label):
    guesses, maps = asyncio.run(_occlude(Named(), np.ones((1, 16, 16), np.float32), label))
    titles = [one.title for one in maps]
    assert titles == ([guess.label for guess in guesses] if label is None else ["crane"])
    assert titles[:3] == ["crane", "crane", "crow"][: len(titles)]
    assert [np.unravel_index(one.values.argmax(), one.values.shape) for one in maps][:3] == [(4, 4), (4, 0), (0, 4)][
        : len(maps)
    ]
