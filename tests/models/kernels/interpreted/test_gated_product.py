import pytest
import torch

from attendant.errors import ConfigError
from models.kernels.gated_product import gated_product
from tests.models.kernels.cases import TOLERANCES, every_dtype, gated, worst


@every_dtype
@pytest.mark.parametrize(("width", "rows"), [(1, (1,)), (40, (2, 3)), (1024, (2,)), (2500, (1, 1, 2))])
def test_one_half_is_scaled_by_the_other(width, rows, dtype):
    assert worst(gated(dtype=dtype, width=width, rows=rows)) <= 8 * TOLERANCES[dtype]  # numbers up to 8


def test_what_are_no_halves_of_one_tensor_is_refused():
    gate, scaled = torch.zeros(2, 8).split(4, -1)
    for wrong in ((scaled, gate), (gate.clone(), scaled), (gate, scaled[:1]), (gate.contiguous(), scaled.contiguous())):
        with pytest.raises(ConfigError, match="halves of one tensor"):
            gated_product(*wrong)
    three = torch.zeros(2, 12).split(4, -1)
    with pytest.raises(ConfigError, match="halves of one tensor"):
        gated_product(*three[:2])
