import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attendant.errors import ConfigError
from models.layers.attend import attend
from models.layers.masks import causal_mask, key_mask, window_mask
from tests.models.agreement import difference
from tests.models.layers.test_attention import KEYS, QUERIES, queries_keys_values
from tests.oracles.restricted_attention import band_mask


def test_the_causal_mask_lets_a_position_see_itself_and_its_past():
    seen = causal_mask(3)
    assert (seen.dtype, seen.shape) == (torch.bool, (1, 1, 3, 3))
    assert seen[0, 0].tolist() == [[True, False, False], [True, True, False], [True, True, True]]


def test_under_the_causal_mask_no_output_depends_on_a_later_key_or_value():
    q, k, v = queries_keys_values(torch.float64, queries=KEYS)
    before = attend(q, k, v, causal_mask(KEYS))
    k[:, :, 3], v[:, :, 3] = 7.0, -7.0
    after = attend(q, k, v, causal_mask(KEYS))
    assert torch.equal(after[:, :, :3], before[:, :, :3])  # what is masked has a weight of exactly zero
    assert ((after[:, :, 3:] - before[:, :, 3:]).abs().amax(-1) > 1e-3).all()


def test_the_key_mask_has_one_written_out_row_a_query():
    valid = torch.tensor([[True, True, False], [True, False, False]])
    mask = key_mask(valid, queries=2)
    assert mask.tolist() == [[[row, row]] for row in valid.tolist()]


def test_the_key_mask_hides_padding_as_if_it_were_not_there():
    q, k, v = queries_keys_values(torch.float64)
    lengths = (5, 3)
    valid = torch.arange(KEYS) < torch.tensor(lengths)[:, None]
    masked = attend(q, k, v, key_mask(valid, QUERIES))
    for row, length in enumerate(lengths):
        cut = attend(q[row, None], k[row, None, :, :length], v[row, None, :, :length])
        assert difference(masked[row, None], cut) <= 1e-12
    assert difference(masked[1], attend(q, k, v)[1]) > 1e-3


@given(length=st.integers(1, 9), window=st.integers(1, 10), start=st.integers(0, 5))
def test_a_window_shows_the_last_positions_and_the_query_itself_among_them(length, window, start):
    queries, keys = torch.arange(start, start + length)[None], torch.arange(start + length)
    mask = window_mask(queries, keys, window)[0, 0]
    for row, query in enumerate(queries[0].tolist()):
        assert [key for key in keys.tolist() if mask[row, key] and key <= query] == list(
            range(max(0, query - window + 1), query + 1)
        )


@given(length=st.integers(1, 9), radius=st.integers(0, 10))
def test_a_band_shows_what_is_no_further_away_than_the_radius(length, radius):
    mask = band_mask(length, radius)[0, 0]
    for query in range(length):
        seen = [key for key in range(length) if abs(query - key) <= radius]
        assert mask[query].nonzero().flatten().tolist() == seen


def test_restricted_attention_equals_attention_over_each_querys_own_neighbourhood():
    q, k, v = queries_keys_values(torch.float64, queries=KEYS)
    banded = attend(q, k, v, band_mask(KEYS, 1))
    for position in range(KEYS):
        near = slice(max(0, position - 1), position + 2)
        alone = attend(q[:, :, [position]], k[:, :, near], v[:, :, near])
        assert difference(banded[:, :, [position]], alone) <= 1e-12
    assert difference(banded, attend(q, k, v, band_mask(KEYS, 2))) > 1e-3


def test_an_empty_window_and_a_negative_radius_are_refused():
    with pytest.raises(ConfigError, match="at least one position; found 0"):
        window_mask(torch.zeros(1, 1, dtype=torch.int64), torch.arange(1), 0)
    with pytest.raises(ConfigError, match="radius of zero or more; found -1"):
        band_mask(3, -1)
