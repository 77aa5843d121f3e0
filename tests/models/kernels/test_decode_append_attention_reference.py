import pytest
import torch

from models.kernels.decode_append_attention_reference import decode_append_attention_reference
from models.layers.attend import attend
from models.layers.kv_cache import tensor_scatter
from models.layers.rope import Rope, RopeConfig
from tests.models.agreement import difference


@pytest.mark.parametrize("layout", ["half", "interleaved", None])
def test_the_reference_equals_the_layers_of_a_cached_decoder(layout):
    generator = torch.Generator().manual_seed(0)
    q, new_k, new_v, *caches = (
        torch.randn(2, heads, length, 6, generator=generator, dtype=torch.float64)
        for heads, length in ((4, 3), (2, 3), (2, 3), (2, 9), (2, 9))
    )
    start = torch.tensor([6, 2])
    positions = start[:, None] + torch.arange(3)
    rotation = Rope(6, RopeConfig(layout=layout)).double()(positions) if layout else None
    turned = [x if rotation is None else rotation.apply(x) for x in (q, new_k)]
    k, v = tensor_scatter(caches[0], turned[1], start), tensor_scatter(caches[1], new_v, start)
    wanted = attend(turned[0], k, v, torch.arange(9) <= positions[:, None, :, None])
    found = decode_append_attention_reference(q, new_k, new_v, rotation, tuple(caches), start)
    assert difference(found, wanted) < 1e-12
    assert torch.equal(caches[0], k)
    assert torch.equal(caches[1], v)


def test_what_does_not_fit_the_capacity_is_dropped():
    generator = torch.Generator().manual_seed(0)
    new = torch.randn(1, 1, 3, 4, generator=generator)
    caches = torch.zeros(1, 1, 5, 4), torch.zeros(1, 1, 5, 4)
    found = decode_append_attention_reference(new, new, new, None, caches, torch.tensor([4]))
    assert torch.equal(caches[0][:, :, 4], new[:, :, 0])
    assert not caches[0][:, :, :4].any()
    assert found.isfinite().all()
