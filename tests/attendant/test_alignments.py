import numpy as np
import pytest

from attendant.alignments import join_alignments


def ones(*shape):
    return np.ones(shape, np.float32)


def test_rows_of_one_width_stand_below_each_other():
    assert join_alignments([]) is None
    np.testing.assert_array_equal(join_alignments([ones(2, 3), ones(1, 3), ones(0, 3)]), ones(3, 3))


def test_rows_that_grow_by_one_a_token_end_in_zeros():
    joined = join_alignments([ones(1, 3), np.tril(ones(2, 5), 3), ones(1, 6), ones(0, 6)])
    np.testing.assert_array_equal(joined, np.tril(ones(4, 6), 2))


@pytest.mark.parametrize("widths", [(2, 4), (3, 2), (2, 3, 3)])
def test_others_are_refused(widths):
    with pytest.raises(ValueError, match="of one width"):
        join_alignments([ones(1, width) for width in widths])
