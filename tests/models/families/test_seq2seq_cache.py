import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.models.agreement import EXACT, agrees_in_both_precisions, difference
from tests.models.families.cached_decoding import (
    any_pieces,
    seen_mask,
    stale_caches,
    step_by_step_and_at_once,
    worst_difference,
)
from tests.models.families.translation import TARGET_LENGTH, VARIANTS, logits_of, random_batch, translator

BATCH = random_batch()
ROWS = len(BATCH.target_ids)
MODEL = translator()
FULL = logits_of(MODEL, BATCH)


@given(pieces=any_pieces(), spare=st.integers(0, 3))
def test_any_split_of_a_cached_decode_equals_the_full_forward(pieces, spare):
    assert worst_difference(MODEL, BATCH, pieces, spare=spare) <= EXACT


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_split_in_which_rows_advance_at_different_paces_equals_the_full_forward_of_every_variant(variant):
    split = [[2, 1, 3], [4, 1, 1], [1, 0, 5]]
    model = translator(**VARIANTS[variant])
    assert worst_difference(model, BATCH, split, spare=2) <= EXACT


@agrees_in_both_precisions
def test_single_steps_equal_the_full_forward(dtype):
    yield from step_by_step_and_at_once(translator(dtype), BATCH)


@pytest.mark.planted
def test_a_start_that_is_wrong_by_one_is_seen():
    assert worst_difference(MODEL, BATCH, [[2, 4]] * ROWS, start_error=1) > 1e-3


@pytest.mark.planted
def test_a_mask_that_shows_what_another_request_left_is_seen():
    start = torch.zeros(ROWS, dtype=torch.long)
    crosses = MODEL.cross_keys_and_values(MODEL.encode(BATCH.source_ids, BATCH.source_mask))
    caches = stale_caches(MODEL, ROWS)
    mask = seen_mask(start, TARGET_LENGTH, TARGET_LENGTH + 1)
    right, _ = MODEL.decode_cached(BATCH.target_ids, start, mask, BATCH.source_mask, caches, crosses)
    assert difference(right, FULL) <= EXACT
    mask[..., -1] = True
    wrong, _ = MODEL.decode_cached(BATCH.target_ids, start, mask, BATCH.source_mask, caches, crosses)
    assert difference(wrong, FULL) > 1e-3


def test_a_call_writes_its_own_cache_positions_and_no_other():
    start = torch.tensor([0, 5, 2])
    caches = stale_caches(MODEL, ROWS)
    crosses = MODEL.cross_keys_and_values(MODEL.encode(BATCH.source_ids, BATCH.source_mask))
    mask = seen_mask(start, 2, 7)
    _, present = MODEL.decode_cached(BATCH.target_ids[:, :2], start, mask, BATCH.source_mask, caches, crosses)
    for old, new in zip(caches, present, strict=True):
        for before, after in zip(old, new, strict=True):
            written = (before != after).all(-1).all(1)
            assert written.nonzero().tolist() == [[0, 0], [0, 1], [1, 5], [1, 6], [2, 2], [2, 3]]
            assert torch.equal(before.unique(), before[0, 0, 0, :1])  # what was given is as it was
