import asyncio

import numpy as np
import pytest

from attendant.errors import LoadingError
from attendant.tensor_names import HIDDEN, TOKEN_MASK
from clients import loads
from clients.classify import Classifier
from clients.embed import TRIES, Embedder, mean
from clients.occlusion import occlusion_maps
from clients.served_model import ServedModel


def test_the_mean_is_over_the_tokens_and_not_over_padding():
    hidden = np.array([[[1.0, 2.0], [3.0, 6.0]], [[5.0, 7.0], [99.0, -99.0]]], dtype=np.float32)
    mask = np.array([[True, True], [True, False]])
    pooled = mean(hidden, mask)
    assert pooled.dtype == np.float32
    assert pooled.tolist() == [[2.0, 4.0], [5.0, 7.0]]


def version(number):
    parameters = {"task": "embed", "artefact": f"sha256:{number}"}
    sizes = {"decoupled": False, "max_batch": 2, "inputs": {}, "outputs": {}, "dtypes": {}}
    return ServedModel(name="encoder", parameters=parameters, **sizes)


class Exchanged:
    """A client of a server on which the encoder is loaded anew behind some batches; its vectors say which it was."""

    server = "127.0.0.1:8001"

    def __init__(self, *behind, silent=False, versions=1 << 20):
        self.behind, self.batches, self.silent, self.versions = behind, 0, silent, versions
        self.counted = 7  # canaries

    @property
    def version(self):
        return sum(self.batches > one for one in self.behind) % self.versions

    async def usage(self, name):
        return self.counted, self.counted, self.counted

    async def model(self, name):
        if self.silent:
            await asyncio.sleep(60)
        return version(self.version)

    async def infer(self, name, inputs, outputs, parameters):
        self.batches += 1
        self.counted = 1 if self.batches - 1 in self.behind else self.counted + 1
        (texts,) = inputs.values()
        hidden = np.full((len(texts), 1, 3), self.version, np.float32)
        return {HIDDEN: hidden, TOKEN_MASK: np.ones((len(texts), 1), bool)}


def vectors(client, count):
    return asyncio.run(Embedder(client, version(0)).embed(["a"] * count))[:, 0].tolist()


@pytest.mark.planted
def test_vectors_of_several_batches_are_of_one_load_of_the_model():
    assert vectors(Exchanged(), 5) == [0] * 5
    assert vectors(Exchanged(1), 5) == [1] * 5
    assert vectors(Exchanged(0), 2) == [1] * 2, "one batch is of one load whatever happens"
    assert vectors(Exchanged(1, 2, versions=2), 5) == [0] * 5, "exchanged, and exchanged back"


@pytest.mark.planted
def test_texts_whose_model_is_loaded_again_and_again_are_refused():
    with pytest.raises(LoadingError, match="send it again"):
        vectors(Exchanged(*range(1, 3 * TRIES + 1)), 5)


def test_a_server_that_loads_another_model_meanwhile_keeps_no_texts_waiting(monkeypatch):
    monkeypatch.setattr(loads, "PATIENCE_S", 0.01)
    assert vectors(Exchanged(silent=True), 5) == [0] * 5


class Counts(Classifier):
    """Whose batches are counted by the client that it has."""

    async def logits(self, pixels):
        await self._client.infer("encoder", {"pixels": pixels}, [], None)
        return np.zeros((len(pixels), 2), np.float32)


def test_an_image_whose_parts_two_loads_have_seen_is_refused():
    pixels = np.zeros((1, 4, 4), np.float32)
    asyncio.run(occlusion_maps(Counts(Exchanged(), version(0)), pixels))
    for behind, versions in ((3,), 9), ((3, 5), 2):
        with pytest.raises(LoadingError, match="encoder"):
            asyncio.run(occlusion_maps(Counts(Exchanged(*behind, versions=versions), version(0)), pixels))
