import math

import pytest

from attendant.errors import ConfigError
from clients.retry import RetryPolicy


def pauses(policy, tries):
    return [policy.pause_after(tries) for _ in range(200)]


def test_nothing_is_sent_twice_by_default():
    assert RetryPolicy().pause_after(1) is None


def test_there_are_as_many_tries_as_were_asked_for():
    policy = RetryPolicy(tries=3)
    assert [policy.pause_after(tries) is None for tries in (1, 2, 3, 4)] == [False, False, True, True]


@pytest.mark.parametrize(("tries", "longest"), [(1, 0.5), (2, 1.0), (3, 1.5), (9, 1.5)])
def test_pauses_are_spread_from_nothing_to_a_bound_that_doubles_up_to_the_longest(tries, longest):
    found = pauses(RetryPolicy(tries=10, pause_s=0.5, longest_pause_s=1.5), tries)
    assert 0 <= min(found) < 0.1 * longest and 0.9 * longest < max(found) <= longest


def test_a_pause_stays_the_longest_however_often_was_tried():
    assert max(pauses(RetryPolicy(tries=10_000, longest_pause_s=1.5), 9_999)) <= 1.5


@pytest.mark.parametrize("wrong", [{"tries": 0}, {"pause_s": -1.0}, {"longest_pause_s": math.nan}])
def test_a_policy_that_cannot_be_is_refused_by_name(wrong):
    (name,) = wrong
    with pytest.raises(ConfigError, match=name):
        RetryPolicy(**wrong)
