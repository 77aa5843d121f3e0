"""A lowered decoder takes every step that the standard graph takes, and leaves the same behind in the caches."""

import numpy as np
import pytest

from attendant.errors import InputError
from attendant.manifest import Manifest
from serving.runtime.cached_decoder import CachedDecoder
from serving.runtime.create_runners import create_runners
from serving.runtime.ort.runner import OrtRunner, RowByRow


@pytest.fixture(scope="module")
def decoders(language_model):
    """The lowered graph and the standard's."""
    manifest = Manifest.read(language_model)
    return (
        create_runners(language_model, manifest)["decoder"],
        OrtRunner(language_model / "decoder.onnx", manifest.graph("decoder")),
    )


def test_the_lowered_graph_is_the_one_that_is_served(decoders):
    assert isinstance(decoders[0], RowByRow)


@pytest.mark.parametrize(
    "starts", [[0, 0, 0], [4, 4, 4], [3, 0, 5], [0, 0, 2]], ids=["prompts", "side by side", "apart", "one further on"]
)
@pytest.mark.parametrize("steps", [1, 3])
def test_rows_anywhere_score_and_remember_as_on_the_standard_graph(starts, steps, decoders):
    rng = np.random.default_rng(0)
    vocabulary = decoders[0].signature.outputs[0].axes[2]
    past, new = rng.integers(vocabulary, size=(3, 5)), rng.integers(vocabulary, size=(3, steps))
    logits, caches = [], []
    for runner in decoders:
        decoder = CachedDecoder(runner, 3)
        addresses = {name: buffer.address for name, buffer in decoder.caches.items()}
        decoder.step(past, np.zeros(3, dtype=np.int64))
        logits.append(decoder.step(new, np.array(starts))["logits"])
        assert {name: buffer.address for name, buffer in decoder.caches.items()} == addresses
        caches.append([buffer.numpy() for buffer in decoder.caches.values()])
    np.testing.assert_allclose(*logits, atol=1e-5)
    for one, other in zip(*caches, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_a_tensor_that_the_graph_does_not_admit_is_refused_as_ever(decoders):
    with pytest.raises(InputError, match="missing"):
        decoders[0].run({"token_ids": np.zeros((2, 2), dtype=np.int64)})
