import numpy as np
import pytest

from attendant.errors import InputError
from attendant.manifest import Manifest
from serving.runtime.cached_decoder import CachedDecoder, self_mask
from serving.runtime.create_runners import create_runners


def test_a_new_token_sees_what_was_written_before_it_and_itself():
    mask = self_mask(np.array([0, 2]), steps=2, attended=4)
    assert mask[:, 0].astype(int).tolist() == [[[1, 0, 0, 0], [1, 1, 0, 0]], [[1, 1, 1, 0], [1, 1, 1, 1]]]


def test_more_tokens_than_the_cache_holds_are_refused(tiny_translator):
    runners = create_runners(tiny_translator, Manifest.read(tiny_translator))
    mask = np.ones((1, 3), dtype=bool)
    crosses = runners["encoder"].run({"source_ids": np.full((1, 3), 4), "source_mask": mask})
    decoder = CachedDecoder(runners["decoder"], 1, {"source_mask": mask, **crosses})
    decoder.step(np.full((1, 7), 4), np.array([0]))
    with pytest.raises(InputError, match="at most 8 positions"):
        decoder.step(np.full((1, 2), 4), np.array([7]))


@pytest.mark.parametrize("scored", [[[0], [4]], [[3, 1], [2, 2]]], ids=str)
def test_only_the_tokens_that_are_scored_get_logits_and_each_row_has_its_own(language_model, scored):
    runner = create_runners(language_model, Manifest.read(language_model))["decoder"]
    tokens, start = np.array([[5, 6, 7, 8, 9], [9, 8, 7, 6, 5]]), np.array([0, 0])
    every = CachedDecoder(runner, 2).step(tokens, start)["logits"]
    logits = CachedDecoder(runner, 2).step(tokens, start, np.array(scored))["logits"]
    assert logits.shape == (2, len(scored[0]), every.shape[2])
    np.testing.assert_allclose(
        logits, np.stack([row[places] for row, places in zip(every, scored, strict=True)]), atol=1e-5
    )
