import pytest

from attendant.errors import InputError
from serving.engine.request import require_limit


@pytest.mark.parametrize(("asked", "given"), [(None, 9), (1, 1), (9, 9)])
def test_a_limit_within_reach_is_kept_and_none_is_the_longest(asked, given):
    assert require_limit(asked, 9, "the cache") == given


@pytest.mark.parametrize("asked", [0, -1, 10])
def test_a_limit_out_of_reach_is_refused_with_the_reason(asked):
    with pytest.raises(InputError, match="max_tokens from 1 to 9, the cache"):
        require_limit(asked, 9, "the cache")
