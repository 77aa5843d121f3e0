import pytest
import torch

from attendant.errors import ConfigError
from models.layers.attend import attend
from tests.models.agreement import agrees_in_both_precisions
from tests.oracles.restricted_attention import band_mask, restricted_attend


def queries_keys_values(dtype=torch.float64, length=7):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(2, 3, length, 4, generator=generator).to(dtype) for _ in range(3)]


@agrees_in_both_precisions
@pytest.mark.parametrize("radius", [0, 1, 3, 6, 9])
def test_it_is_full_attention_under_a_band(radius, dtype):
    q, k, v = queries_keys_values(dtype)
    wanted = attend(q, k, v, band_mask(7, radius))
    yield restricted_attend(q, k, v, radius), wanted


def test_a_change_beyond_the_radius_is_not_seen_and_one_within_is():
    q, k, v = queries_keys_values()
    before = restricted_attend(q, k, v, 2)
    v[:, :, 6] += 1.0
    after = restricted_attend(q, k, v, 2)
    assert torch.equal(after[:, :, :4], before[:, :, :4])
    assert (after - before)[:, :, 4:].abs().amin(dim=(0, 1, 3)).min() > 1e-3


def test_a_negative_radius_is_refused():
    with pytest.raises(ConfigError, match="a radius of zero or more"):
        restricted_attend(*queries_keys_values(), -1)
