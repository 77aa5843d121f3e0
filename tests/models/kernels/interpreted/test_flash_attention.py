import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.kernels.cases import DTYPES, TOLERANCES, every_dtype, flash, worst

GROUPED = {"heads": 4, "kv_heads": 2}
SHAPES = {
    "a length beyond the capacity": {"size": 16, "queries": 3, "capacity": 40, "lengths": [42, 40], **GROUPED},
    "prefill of rows of different lengths": {"size": 40, "queries": 5, "capacity": 70, "lengths": [70, 5], **GROUPED},
    "a row shorter than its queries, and an empty one": {
        "size": 16,
        "queries": 4,
        "capacity": 9,
        "lengths": [2, 0],
        **GROUPED,
    },
    "several tiles of queries and of keys": {
        "size": 32,
        "queries": 135,
        "capacity": 201,
        "lengths": [200],
        "heads": 1,
        "kv_heads": 1,
    },
    "heads of 80": {"size": 80, "queries": 3, "capacity": 70, "lengths": [66], "heads": 3, "kv_heads": 1},
    "heads of 96": {"size": 96, "queries": 2, "capacity": 65, "lengths": [65], "heads": 1, "kv_heads": 1},
    "heads of 256": {"size": 256, "queries": 2, "capacity": 40, "lengths": [33], "heads": 1, "kv_heads": 1},
}


@every_dtype
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "full"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_kernel_equals_its_reference(shape, causal, dtype):
    assert worst(flash(dtype=dtype, causal=causal, **SHAPES[shape])) <= TOLERANCES[dtype]


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "full"])
@pytest.mark.parametrize("lengths", [[135, 70], [0, 1]], ids=["long", "short"])
def test_what_one_product_has_made_is_read_and_answered_as_it_lies(lengths, causal):
    sizes = {"size": 24, "queries": 135, "capacity": 135, "lengths": lengths, "causal": causal, **GROUPED}
    assert worst(flash(together=True, **sizes)) <= TOLERANCES["float32"]


def test_another_scale_and_lengths_of_int64_are_heeded():
    sizes = {**SHAPES["heads of 80"], "causal": True, "index": "int64"}
    assert worst(flash(**sizes, scale=0.3)) <= TOLERANCES["float32"]


@st.composite
def sizes(draw):
    kv_heads, capacity = draw(st.integers(1, 2)), draw(st.integers(1, 90))
    return {
        "kv_heads": kv_heads,
        "heads": kv_heads * draw(st.integers(1, 2)),
        "size": draw(st.integers(1, 48)),
        "queries": draw(st.integers(1, 40)),
        "capacity": capacity,
        "lengths": draw(st.lists(st.integers(0, capacity), min_size=1, max_size=2)),
        "causal": draw(st.booleans()),
    }


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(sizes(), st.sampled_from(list(DTYPES)))
def test_any_sizes_do(drawn, dtype):
    assert worst(flash(dtype=dtype, **drawn)) <= TOLERANCES[dtype]
