import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.kernels.cases import DTYPES, TOLERANCES, additive, every_dtype, worst


@every_dtype
@pytest.mark.parametrize("source", [1, 21, 300])
def test_the_kernel_equals_its_reference(source, dtype):
    assert worst(additive(dtype=dtype, source=source)) <= TOLERANCES[dtype]


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.integers(1, 3), st.integers(1, 70), st.integers(1, 70), st.integers(1, 70), st.sampled_from(list(DTYPES)))
def test_any_sizes_do(batch, source, width, columns, dtype):
    found = additive(dtype=dtype, batch=batch, source=source, width=width, columns=columns)
    assert worst(found) <= TOLERANCES[dtype]
