import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.kernels.cases import DTYPES, TOLERANCES, every_dtype, rotate, worst

GROUPED = {"heads": 4, "kv_heads": 2}
SHAPES = {
    "rows of different lengths": {"size": 32, "queries": 9, "capacity": 60, "lengths": [19, 0], **GROUPED},
    "positions of several programs": {"size": 256, "queries": 37, "capacity": 140, "lengths": [101, 3], **GROUPED},
    "a size that is no power of two": {"size": 24, "queries": 130, "capacity": 140, "lengths": [7, 10], **GROUPED},
    "positions that overflow the capacity": {"size": 16, "queries": 11, "capacity": 20, "lengths": [19, 20], **GROUPED},
}


@every_dtype
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("layout", ["half", "interleaved", None])
@pytest.mark.parametrize("shape", SHAPES)
def test_queries_are_turned_and_caches_written_as_they_should_be(shape, layout, together, dtype):
    assert worst(rotate(dtype=dtype, layout=layout, together=together, **SHAPES[shape])) <= TOLERANCES[dtype]


@st.composite
def sizes(draw):
    kv_heads, capacity = draw(st.integers(1, 2)), draw(st.integers(1, 150))
    return {
        "kv_heads": kv_heads,
        "heads": kv_heads * draw(st.integers(1, 3)),
        "size": 2 * draw(st.integers(1, 20)),
        "queries": draw(st.integers(1, 60)),
        "capacity": capacity,
        "lengths": draw(st.lists(st.integers(0, capacity), min_size=1, max_size=2)),
        "layout": draw(st.sampled_from(["half", "interleaved", None])),
        "together": draw(st.booleans()),
    }


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(sizes(), st.sampled_from(list(DTYPES)))
def test_any_sizes_do(drawn, dtype):
    assert worst(rotate(dtype=dtype, **drawn)) <= TOLERANCES[dtype]
