import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.kernels.decode_append_attention import lie_together
from tests.models.kernels.cases import DTYPES, TOLERANCES, append, as_one_product, every_dtype, worst

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


@every_layout
@pytest.mark.parametrize("shape", SHAPES)
def test_what_one_product_has_made_is_read_as_it_lies(shape, layout):
    assert worst(append(layout=layout, together=True, **SHAPES[shape])) <= TOLERANCES["float32"]


def test_what_lies_together_is_told_from_what_does_not():
    q, k, v = torch.zeros(2, 4, 3, 8), torch.zeros(2, 2, 3, 8), torch.zeros(2, 2, 3, 8)
    one = as_one_product(q, k, v)
    assert lie_together(*one)
    assert not lie_together(q, k, v)
    assert not lie_together(one[0], one[2], one[1])
    assert not lie_together(one[0].contiguous(), *one[1:])
    assert not lie_together(*as_one_product(q[:1, :, :1], k[:1, :, :1], v[:1, :, :1]))  # contiguous as they are


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
        "together": draw(st.booleans()),
    }


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(sizes(), st.sampled_from(list(DTYPES)))
def test_any_sizes_do(drawn, dtype):
    assert worst(append(dtype=dtype, **drawn)) <= TOLERANCES[dtype]
