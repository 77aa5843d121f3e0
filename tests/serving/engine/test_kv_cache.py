"""The memory of slots: a step sees its rows where they stand, and of each source what its encoder returned."""

import numpy as np
import pytest

from attendant.manifest import Manifest
from models.train.date_data import held_out
from serving.engine import kv_cache as slots_module
from serving.engine.kv_cache import KVCache
from serving.engine.scheduler import encode_sources
from serving.engine.text_generation_model import TranslationModel
from serving.runtime.cached_decoder import CachedDecoder
from serving.runtime.create_runners import create_runners
from serving.runtime.ort.runner import OrtRunner
from tests.serving.engine.sample_sequences import Seen, bound, source_of


@pytest.fixture
def tiny(tiny_translator, monkeypatch):
    """The slots of a translator whose sources are laid out for a multiple of 4 positions, and what its steps see."""
    monkeypatch.setattr(slots_module, "SOURCE_BLOCK", 4)
    runner = create_runners(tiny_translator, Manifest.read(tiny_translator))["decoder"]
    return KVCache(runner, 4), Seen(runner)


@pytest.fixture
def captioner_of_any_side(exported):
    """A tiny captioner of images of any side, whose decoder knows no mask of their positions, exported."""
    return exported("show-attend-tell-tiny")


def place(slots, seen, row, length, value, occupied):
    slots.place(row, source_of(seen.signature, length, value), occupied)


def test_a_longer_source_makes_room_for_itself_and_keeps_the_others(tiny):
    slots, seen = tiny
    for row, (length, laid_out) in enumerate([(3, 4), (2, 4), (9, 12), (5, 12)]):
        place(slots, seen, row, length, row + 1, row)
        for rows in (1, row + 1):
            fed = bound(slots, seen, 0, rows)
            assert fed["cross_00_key"].shape[2] == fed["source_mask"].shape[1] == laid_out
    for row, length in enumerate((3, 2, 9, 5)):
        assert fed["source_mask"][row].tolist() == [True] * length + [False] * (12 - length)
        assert (fed["cross_01_value"][row, :, :length] == row + 1).all()
        assert not fed["cross_01_value"][row, :, length:].any()


def test_the_layout_is_made_for_the_source_alone_once_nobody_is_left(tiny):
    slots, seen = tiny
    place(slots, seen, 0, 12, 7, 0)
    place(slots, seen, 1, 1, 8, 1)
    assert bound(slots, seen, 0, 2)["source_mask"].shape == (2, 12)
    place(slots, seen, 0, 3, 9, 0)
    fed = bound(slots, seen, 0, 1)
    assert fed["source_mask"].tolist() == [[True, True, True, False]]
    assert (fed["cross_00_key"][0, :, :3] == 9).all() and not fed["cross_00_key"][0, :, 3:].any()


def test_no_layout_is_longer_than_the_longest_source(tiny_translator):
    runner = create_runners(tiny_translator, Manifest.read(tiny_translator))["decoder"]
    slots, seen = KVCache(runner, 1), Seen(runner)
    longest = runner.signature.axes["source"].max
    assert longest < slots_module.SOURCE_BLOCK
    place(slots, seen, 0, longest - 1, 1, 0)
    assert bound(slots, seen, 0, 1)["source_mask"].shape[1] == longest


def test_rows_are_bound_where_they_stand_and_bound_once(tiny):
    slots, _ = tiny
    first, second = slots.decoder(0, 3), slots.decoder(2, 3)
    for name, buffer in first.caches.items():
        row_bytes = buffer.nbytes // 3
        assert second.caches[name].address == buffer.address + 2 * row_bytes
    assert slots.decoder(0, 3) is first


def test_beams_exchange_their_caches_as_far_as_these_are_filled_and_share_their_source(tiny):
    slots, seen = tiny
    for row in range(3):
        place(slots, seen, row, 2, 5, row)
    fed = bound(slots, seen, 0, 4)
    for name in seen.signature.aliases.values():
        fed[name][...] = np.arange(4)[:, None, None, None]
    slots.permute([0, 1, 2], [1, 0, 0], positions=2)
    for name in seen.signature.aliases.values():
        assert (fed[name][:, :, :2] == np.array([1, 0, 0, 3])[:, None, None, None]).all()
        assert (fed[name][:, :, 2:] == np.arange(4)[:, None, None, None]).all()
    assert bound(slots, seen, 0, 3)["source_mask"].tolist() == [[True, True, False, False]] * 3


def test_what_was_cached_is_restored_in_another_row(tiny):
    slots, seen = tiny
    fed = bound(slots, seen, 0, 4)
    names = list(seen.signature.aliases.values())
    generator = np.random.default_rng(0)
    for name in names:
        fed[name][...] = generator.standard_normal(fed[name].shape)
    before = {name: fed[name].copy() for name in names}
    blocks = slots.cached(2, 1, 4)
    slots.restore(0, 3, blocks)
    for name, block in zip(names, blocks, strict=True):
        assert np.array_equal(fed[name][0, :, 3:6], before[name][2, :, 1:4]) and not np.shares_memory(block, fed[name])
        assert np.array_equal(fed[name][0, :, :3], before[name][0, :, :3])
        assert np.array_equal(fed[name][0, :, 6:], before[name][0, :, 6:])
        assert np.array_equal(fed[name][1:], before[name][1:])


def test_with_a_mask_any_source_stands_beside_any_other(tiny):
    slots, seen = tiny
    place(slots, seen, 0, 3, 1, 0)
    assert slots.accepts(source_of(seen.signature, 9, 1), 1)


def test_without_a_mask_only_sources_of_one_length_stand_side_by_side(captioner_of_any_side):
    runner = create_runners(captioner_of_any_side, Manifest.read(captioner_of_any_side))["decoder"]
    slots, seen = KVCache(runner, 2), Seen(runner)
    few, many = (source_of(runner.signature, length, 1) for length in (4, 6))
    assert slots.accepts(few, 0)
    slots.place(0, few, 0)
    assert slots.accepts(few, 1) and not slots.accepts(many, 1)
    assert slots.accepts(many, 0), "nobody is left"
    slots.place(0, many, 0)
    assert all(6 in feed.shape for name, feed in bound(slots, seen, 0, 1).items() if name in many)


def test_a_cleared_row_spoils_no_later_sequence_by_numbers_that_are_none(language_model):
    manifest = Manifest.read(language_model)
    slots = KVCache(OrtRunner(language_model / "decoder.onnx", manifest.graph("decoder")), 2)
    tokens, start = np.array([[5], [6]]), np.array([0, 6])  # the first row is masked where the second is read
    expected = slots.decoder(0, 2).step(tokens, start)["logits"].copy()
    for name, buffer in slots.decoder(0, 1).caches.items():
        buffer.numpy()[...] = np.nan
        assert np.isnan(slots.decoder(0, 2).caches[name].numpy()[0]).all()
    assert np.isnan(slots.decoder(0, 2).step(tokens, start)["logits"][0]).all(), "a mask keeps no NaN out"
    slots.clear(0)
    # The same computation twice, in one process.
    assert np.array_equal(slots.decoder(0, 2).step(tokens, start)["logits"], expected)


def test_rows_of_sources_of_any_length_are_scored_as_each_alone(dates_artefact):
    model = TranslationModel(dates_artefact, Manifest.read(dates_artefact))
    requests = [model.request(text) for text, _ in held_out(6)]
    memories = encode_sources(model.runners["encoder"], [request.source for request in requests])
    slots = KVCache(model.runners["decoder"], len(requests))
    for row, memory in enumerate(memories):
        slots.place(row, memory, row)
    tokens_BT = np.full((len(requests), 1), model.details["start_token"])
    together = slots.decoder(0, len(requests)).step(tokens_BT, np.zeros(len(requests), dtype=np.int64))["logits"]
    for row, memory in enumerate(memories):
        alone = CachedDecoder(model.runners["decoder"], 1, {name: array[None] for name, array in memory.items()})
        scored = alone.step(tokens_BT[:1], np.zeros(1, dtype=np.int64))["logits"]
        np.testing.assert_allclose(together[row : row + 1], scored, atol=1e-5)
