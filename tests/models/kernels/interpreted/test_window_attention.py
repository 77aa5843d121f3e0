import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.kernels.cases import DTYPES, TOLERANCES, every_dtype, windows, worst

every_score = pytest.mark.parametrize("cosine", [False, True], ids=["product", "cosine"])


@every_dtype
@every_score
@pytest.mark.parametrize("shift", [0, 3], ids=["still", "shifted"])
def test_the_kernel_equals_its_reference(shift, cosine, dtype):
    assert worst(windows(window=7, shift=shift, cosine=cosine, dtype=dtype, down=1, across=2)) <= TOLERANCES[dtype]


@every_score
def test_a_window_of_several_tiles_equals_its_reference(cosine):
    sizes = {"window": 12, "shift": 6, "heads": 1, "down": 1, "across": 2}
    assert worst(windows(dtype="float16", cosine=cosine, **sizes)) <= TOLERANCES["float16"]


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 8).flatmap(lambda window: st.tuples(st.just(window), st.integers(0, window - 1))),
    st.booleans(),
    st.integers(1, 3),
    st.integers(1, 40),
    st.integers(1, 2),
    st.integers(1, 2),
    st.sampled_from(list(DTYPES)),
)
def test_any_sizes_do(window_and_shift, cosine, heads, size, down, across, dtype):
    window, shift = window_and_shift
    sizes = {"heads": heads, "size": size, "down": down, "across": across}
    assert worst(windows(window=window, shift=shift, cosine=cosine, dtype=dtype, **sizes)) <= TOLERANCES[dtype]
