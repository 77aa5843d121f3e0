from itertools import pairwise

import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.models.agreement import TOLERANCES, difference
from tests.models.families.cached_decoding import decode_in_pieces, seen_mask, stale_caches
from tests.models.families.translation import TARGET_LENGTH, logits_of, random_batch, translator

BATCH = random_batch()
ROWS = len(BATCH.target_ids)
MODEL = translator()
FULL = logits_of(MODEL, BATCH)


def worst_difference(pieces, **options):
    rows = decode_in_pieces(MODEL, BATCH, pieces, **options)
    return max(difference(row, FULL[number, : len(row)]) for number, row in enumerate(rows))


@st.composite
def compositions(draw):
    """One way to cut a row's tokens into calls; some calls may pass without a token of this row."""
    cuts = draw(st.lists(st.integers(0, TARGET_LENGTH), max_size=TARGET_LENGTH))
    ends = [0, *sorted(cuts), TARGET_LENGTH]
    return [end - begin for begin, end in pairwise(ends)]


@given(pieces=st.lists(compositions(), min_size=ROWS, max_size=ROWS), spare=st.integers(0, 3))
def test_any_split_of_a_cached_decode_equals_the_full_forward(pieces, spare):
    calls = [call for call in range(max(map(len, pieces))) if any(call < len(row) and row[call] for row in pieces)]
    without_empty_calls = [[row[call] if call < len(row) else 0 for call in calls] for row in pieces]
    assert worst_difference(without_empty_calls, spare=spare) <= TOLERANCES[torch.float64]


def test_in_float32_single_steps_equal_the_full_forward():
    model = translator(torch.float32)
    full = logits_of(model, BATCH)
    rows = decode_in_pieces(model, BATCH, [[1] * TARGET_LENGTH] * ROWS)
    assert difference(torch.stack(rows), full) <= TOLERANCES[torch.float32]


def test_a_start_that_is_wrong_by_one_is_seen():
    assert worst_difference([[2, 4]] * ROWS, start_error=1) > 1e-3


def test_a_mask_that_shows_what_another_request_left_is_seen():
    start = torch.zeros(ROWS, dtype=torch.long)
    crosses = MODEL.cross_keys_and_values(MODEL.encode(BATCH.source_ids, BATCH.source_mask))
    caches = stale_caches(MODEL, ROWS)
    mask = seen_mask(start, TARGET_LENGTH, TARGET_LENGTH + 1)
    right, _ = MODEL.decode_cached(BATCH.target_ids, start, mask, BATCH.source_mask, caches, crosses)
    assert difference(right, FULL) <= TOLERANCES[torch.float64]
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
