"""Sources that are encoded together: each gets back what it alone would have got, in its own length."""

import numpy as np
import pytest

from attendant.manifest import Manifest
from serving.engine.scheduler import count_batchable, encode_sources
from serving.runtime.create_runners import create_runners


@pytest.fixture(scope="module", params=["tiny_translator", "gru_artefact"])
def encoder(request):
    folder = request.getfixturevalue(request.param)
    return create_runners(folder, Manifest.read(folder))["encoder"]


def source_of(*tokens):
    ids = np.array([tokens], dtype=np.int64)
    return {"source_ids": ids, "source_mask": np.ones_like(ids, dtype=bool)}


SOURCES = [source_of(3, 4, 5), source_of(6), source_of(3, 7, 8, 9, 10, 4, 2), source_of(5, 4, 3)]


def test_a_source_is_read_as_it_is_alone_and_has_its_own_length(encoder):
    axes = {spec.name: spec.axes for spec in encoder.signature.outputs}
    for source, memories in zip(SOURCES, encode_sources(encoder, SOURCES), strict=True):
        outputs = encoder.run({spec.name: source[spec.name] for spec in encoder.signature.inputs})
        assert axes.keys() <= memories.keys()
        for name, alone in outputs.items():
            assert memories[name].shape == alone.numpy().shape[1:], name
            np.testing.assert_allclose(memories[name], alone.numpy()[0], atol=1e-5)
        assert memories["source_mask"].tolist() == source["source_mask"][0].tolist()


def test_one_source_is_not_padded(encoder):
    (memories,) = encode_sources(encoder, SOURCES[:1])
    outputs = encoder.run({spec.name: SOURCES[0][spec.name] for spec in encoder.signature.inputs})
    # The same computation twice, in one process.
    assert all(np.array_equal(memories[name], buffer.numpy()[0]) for name, buffer in outputs.items())


def image(side, dtype=np.float32):
    return {"pixels": np.zeros((1, 3, side, side), dtype=dtype)}


@pytest.mark.parametrize(
    ("sources", "count"),
    [([image(8)] * 3, 3), ([image(8), image(8), image(9), image(8)], 2), ([image(9), image(8)], 1), (SOURCES, 4)],
)
def test_texts_of_any_length_are_read_together_and_images_of_one_size_from_the_first_on(sources, count):
    assert count_batchable(sources) == count
