import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.kernels.cases import DTYPES, TOLERANCES, append, every_dtype, worst

every_layout = pytest.mark.parametrize("layout", ["half", "interleaved", None])
GROUPED = {"heads": 4, "kv_heads": 2, "causal": True}
SHAPES = {
    "one position, rows of different lengths": {
        "size": 32,
        "queries": 1,
        "capacity": 200,
        "lengths": [199, 0],
        **GROUPED,
    },
    "positions that cross a tile": {"size": 24, "queries": 3, "capacity": 140, "lengths": [127, 126], **GROUPED},
    "positions that overflow the capacity": {"size": 16, "queries": 3, "capacity": 20, "lengths": [19, 20], **GROUPED},
}


@every_dtype
@every_layout
@pytest.mark.parametrize("shape", SHAPES)
def test_the_kernel_attends_and_writes_as_its_reference_does(shape, layout, dtype):
    assert worst(append(dtype=dtype, layout=layout, **SHAPES[shape])) <= TOLERANCES[dtype]


@pytest.mark.parametrize("splits", [1, 2, 9])
def test_the_number_of_splits_changes_nothing(splits):
    shape = SHAPES["positions that cross a tile"]
    assert worst(append(splits=splits, **shape)) <= TOLERANCES["float32"]


@st.composite
def sizes(draw):
    kv_heads, capacity = draw(st.integers(1, 2)), draw(st.integers(1, 150))
    return {
        "kv_heads": kv_heads,
        "heads": kv_heads * draw(st.integers(1, 3)),
        "size": 2 * draw(st.integers(1, 20)),
        "queries": draw(st.integers(1, 5)),
        "capacity": capacity,
        "lengths": draw(st.lists(st.integers(0, capacity), min_size=1, max_size=2)),
        "layout": draw(st.sampled_from(["half", "interleaved", None])),
        "splits": draw(st.integers(1, 5)),
        "causal": True,
    }


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(sizes(), st.sampled_from(list(DTYPES)))
def test_any_sizes_do(drawn, dtype):
    assert worst(append(dtype=dtype, **drawn)) <= TOLERANCES[dtype]
