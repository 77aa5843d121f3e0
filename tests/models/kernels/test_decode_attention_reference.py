import math

import torch

from models.kernels.decode_attention_reference import combine_splits_reference
from tests.models.agreement import difference
from tests.oracles.flash_attention import flash_attend


def test_splits_of_any_sizes_combine_to_attention_over_all_keys():
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(2, 3, 4, 8, generator=generator, dtype=torch.float64)
    k, v = torch.randn(2, 2, 3, 23, 8, generator=generator, dtype=torch.float64)
    sizes = [1, 9, 0, 13]
    attended = [
        flash_attend(q, part_k, part_v)
        for part_k, part_v in zip(k.split(sizes, 2), v.split(sizes, 2), strict=True)
        if part_k.shape[2]
    ]
    parts = torch.stack([part for part, _ in attended] + [torch.zeros_like(q)], dim=2)
    bases = torch.stack([base / math.log(2) for _, base in attended] + [torch.full(q.shape[:3], -torch.inf)], dim=2)
    assert difference(combine_splits_reference(parts, bases), flash_attend(q, k, v)[0]) < 1e-12


def test_rows_whose_splits_have_all_seen_nothing_are_zeros():
    parts, bases = torch.ones(1, 1, 3, 2, 4), torch.full((1, 1, 3, 2), -torch.inf)
    assert torch.equal(combine_splits_reference(parts, bases), torch.zeros(1, 1, 2, 4))
