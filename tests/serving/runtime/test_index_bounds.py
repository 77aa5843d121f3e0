import numpy as np
import pytest

from attendant.errors import InputError
from serving.runtime.index_bounds import require_indices

STEP = {
    "token_ids": np.array([[5, 6], [7, 0]]),
    "start": np.array([0, 3]),
    "self_mask": np.ones((2, 1, 2, 5), dtype=bool),
    "scored": np.array([[1], [0]]),
}
BELOW = {"token_ids": 8, "scored": 1}


def test_a_step_within_its_bounds_passes_and_its_scored_positions_are_bound_by_its_length():
    require_indices(STEP, BELOW)


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("token_ids", [[5, 8], [7, 0]], "token_ids from 0 to 7; found 8"),
        ("token_ids", [[5, -1], [7, 0]], "token_ids from 0 to 7; found -1"),
        ("start", [0, 4], "start from 0 to 3; found 4"),
        ("scored", [[2], [0]], "scored from 0 to 1; found 2"),
    ],
)
def test_an_index_that_points_outside_is_refused_by_name_and_bound(name, array, message):
    with pytest.raises(InputError, match=message):
        require_indices({**STEP, name: np.array(array)}, BELOW)


def test_a_graph_without_a_cache_has_the_bounds_of_its_tables():
    require_indices({"source_ids": np.array([[30]])}, {"source_ids": 31})
    with pytest.raises(InputError, match="source_ids from 0 to 29"):
        require_indices({"source_ids": np.array([[30]])}, {"source_ids": 30})
