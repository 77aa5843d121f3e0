import asyncio
import tracemalloc

import numpy as np
import pytest

from clients.loads import Load
from clients.occlusion import MOST_PARTS, occlusion_maps
from clients.served_model import ServedModel

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
