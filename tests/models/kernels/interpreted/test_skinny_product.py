import pytest
import torch

from attendant.errors import ConfigError, InputError
from models.kernel_configs.gpu_targets import gpu_target
from models.kernels.skinny_product import skinny_product, specialise
from tests.models.kernels.cases import TOLERANCES, every_dtype, skinny, worst


@every_dtype
@pytest.mark.parametrize("around", ["gate", "residual", None])
@pytest.mark.parametrize("norm", ["rms", "layer", None])
@pytest.mark.parametrize("rows", [1, 2])
def test_one_or_two_rows_are_multiplied_with_what_is_around(rows, norm, around, dtype):
    sizes = {"rows": rows, "norm": norm, "around": around, "bias": rows == 1}
    assert worst(skinny(dtype=dtype, **sizes)) <= 4 * TOLERANCES[dtype]  # numbers up to 8


@pytest.mark.parametrize(("width", "columns"), [(1, 1), (1024, 2), (2500, 3), (5632, 1)])
def test_rows_of_any_width_are_read_in_parts(width, columns):
    for around in ("gate", "residual"):
        sizes = {"rows": 2, "width": width, "columns": columns, "norm": "layer", "around": around}
        assert worst(skinny(**sizes)) <= 4 * TOLERANCES["float32"]


def test_more_rows_are_refused():
    with pytest.raises(ConfigError, match="1 to 2 rows"):
        skinny_product(torch.zeros(3, 8), torch.zeros(4, 8))


def test_shapes_that_do_not_fit_are_refused():
    inputs, weight = torch.zeros(1, 8), torch.zeros(4, 8)
    norm = torch.nn.RMSNorm(7)
    for wrong in (
        (inputs, torch.zeros(4, 9)),
        (inputs, torch.zeros(5, 8), None, None, None, True),
        (inputs, weight, torch.zeros(3)),
        (inputs, weight, None, norm),
        (inputs, weight, None, None, torch.zeros(1, 5)),
    ):
        with pytest.raises(InputError, match="shape"):
            skinny_product(*wrong)


def test_a_launch_overlaps_the_one_before_it_where_the_gpu_can():
    overlaps = {name: specialise(64, 1, "float16", gpu_target(name)).overlaps for name in ("sm_89", "sm_90", "sm_120")}
    assert overlaps == {"sm_89": False, "sm_90": True, "sm_120": True}
