import pytest
import torch

from attendant.errors import ConfigError
from models.explain.positions import position_similarity
from tests.models.agreement import difference


def test_each_patch_has_a_map_of_cosines_with_all_others():
    table = torch.randn(1, 6, 4, generator=torch.Generator().manual_seed(0)).double()
    found = position_similarity(table, (2, 3))
    assert found.shape == (6, 2, 3)
    for p in range(6):
        for q in range(6):
            one, other = table[0, p], table[0, q]
            cosine = one @ other / (one.norm() * other.norm())
            assert difference(found[p, q // 3, q % 3], cosine) <= 1e-12


def test_a_grid_of_another_number_of_patches_is_refused():
    with pytest.raises(ConfigError, match="6 patches in the grid"):
        position_similarity(torch.ones(6, 4), (2, 2))
