import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.kernels.combine_splits import combine_splits
from models.kernels.decode_attention_reference import combine_splits_reference
from tests.models.agreement import difference
from tests.models.kernels.cases import DTYPES, TOLERANCES, decode, every_dtype, worst

GROUPED = {"heads": 4, "kv_heads": 2}
SHAPES = {
    "a length beyond the capacity": {"size": 16, "queries": 3, "capacity": 40, "lengths": [42, 40], **GROUPED},
    "one position, rows of different lengths": {
        "size": 64,
        "queries": 1,
        "capacity": 300,
        "lengths": [300, 1],
        **GROUPED,
    },
    "some positions, and an empty row": {"size": 24, "queries": 3, "capacity": 140, "lengths": [139, 2, 0], **GROUPED},
    "heads of 80": {"size": 80, "queries": 2, "capacity": 150, "lengths": [130], "heads": 3, "kv_heads": 1},
    "heads of 256": {"size": 256, "queries": 1, "capacity": 70, "lengths": [65], "heads": 1, "kv_heads": 1},
}


@every_dtype
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "full"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_kernels_equal_the_reference(shape, causal, dtype):
    assert worst(decode(dtype=dtype, causal=causal, **SHAPES[shape])) <= TOLERANCES[dtype]


@pytest.mark.parametrize("splits", [1, 2, 7, 16])
def test_the_number_of_splits_changes_nothing(splits):
    shape = SHAPES["some positions, and an empty row"]
    assert worst(decode(splits=splits, causal=True, **shape)) <= TOLERANCES["float32"]


def test_most_rows_that_share_a_head_are_attended_for():
    shape = {"size": 16, "queries": 8, "capacity": 40, "lengths": [30], "heads": 8, "kv_heads": 1, "causal": True}
    assert worst(decode(dtype="float16", **shape)) <= TOLERANCES["float16"]


@st.composite
def sizes(draw):
    kv_heads, capacity = draw(st.integers(1, 2)), draw(st.integers(1, 150))
    return {
        "kv_heads": kv_heads,
        "heads": kv_heads * draw(st.integers(1, 3)),
        "size": draw(st.integers(1, 48)),
        "queries": draw(st.integers(1, 5)),
        "capacity": capacity,
        "lengths": draw(st.lists(st.integers(0, capacity), min_size=1, max_size=2)),
        "causal": draw(st.booleans()),
        "splits": draw(st.integers(1, 5)),
    }


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(sizes(), st.sampled_from(list(DTYPES)))
def test_any_sizes_do(drawn, dtype):
    assert worst(decode(dtype=dtype, **drawn)) <= TOLERANCES[dtype]


def test_the_combining_kernel_equals_its_reference_also_where_splits_have_seen_nothing():
    generator = torch.Generator().manual_seed(0)
    parts = torch.randn(2, 3, 5, 4, 20, generator=generator)
    bases = 10 * torch.randn(2, 3, 5, 4, generator=generator)
    bases[0, :, 1:3], bases[1, 0] = -torch.inf, -torch.inf
    found = combine_splits(parts, bases, torch.empty(2, 3, 4, 20))
    assert difference(found, combine_splits_reference(parts, bases)) <= TOLERANCES["float32"]
