import numpy as np
import pytest

from attendant.errors import InputError
from clients.images import ANY, blank_pixels, require_pixels
from clients.served_model import ServedModel


def served(*sides, **parameters):
    return ServedModel(
        name="m",
        decoupled=True,
        max_batch=0,
        inputs={"pixels": sides},
        outputs={},
        dtypes={"pixels": "float32"},
        parameters=parameters,
    )


def test_a_blank_image_has_the_size_of_the_training_where_the_sides_vary():
    assert blank_pixels(served(3, 8, 9)).shape == (3, 8, 9)
    blank = blank_pixels(served(3, ANY, ANY, image_size=12))
    assert (blank.shape, blank.dtype, blank.any()) == ((3, 12, 12), np.float32, False)


@pytest.mark.parametrize(("shape", "batched"), [((3, 5, 7), False), ((2, 3, 5, 7), True)])
def test_sides_that_vary_admit_any_size(shape, batched):
    require_pixels(served(3, ANY, ANY), np.zeros(shape, np.float32), batched)


@pytest.mark.parametrize("shape", [(1, 5, 7), (3, 5), (1, 3, 5, 7)])
def test_other_channels_or_another_rank_are_refused(shape):
    with pytest.raises(InputError, match=r"float32 pixels \[3, any, any\]"):
        require_pixels(served(3, ANY, ANY), np.zeros(shape, np.float32), batched=False)
