import time
from dataclasses import replace

import pytest

from serving.gateway.errors import RefusedError
from serving.gateway.middleware.keys import Key
from serving.gateway.middleware.quotas import Quotas

KEY = Key(name="ann", sha256="", tokens="60/minute")


def refusal(quotas, likely, most):
    with pytest.raises(RefusedError) as refused:
        quotas.reserve(KEY, likely, most)
    return refused.value


def test_one_request_too_many_is_refused_and_the_headers_say_what_is_left():
    quotas, key = Quotas(), Key(name="ann", sha256="", requests="2/hour")
    assert quotas.admit(key)["RateLimit"].startswith('"requests";r=1;t=')
    assert quotas.admit(key)["RateLimit-Policy"] == '"requests";q=2;w=3600'
    with pytest.raises(RefusedError) as refused:
        quotas.admit(key)
    assert refused.value.status == 429 and 1 <= int(refused.value.headers["Retry-After"]) <= 3600
    quotas.admit(Key(name="ben", sha256="", requests="2/hour"))  # another's are his own


def test_tokens_are_charged_afterwards_and_refused_once_they_are_used_up():
    quotas, key = Quotas(), Key(name="ann", sha256="", tokens="10/day")
    quotas.admit(key)
    quotas.settle(key, 0, 25)
    with pytest.raises(RefusedError, match="10 per 1 day, of tokens"):
        quotas.admit(key)
    assert "r=0" in quotas.admit(key, takes_tokens=False)["RateLimit"]


def test_a_key_without_limits_is_told_of_none():
    assert Quotas().admit(Key(name="ann", sha256="")) == {}


def test_requests_at_once_stay_within_the_quota():
    quotas = Quotas()
    taken = [quotas.reserve(KEY, 25, 30), quotas.reserve(KEY, 25, 30)]
    assert refusal(quotas, 25, 30).status == 429
    for reserved in taken:
        quotas.settle(KEY, reserved, 10)
    assert quotas.reserve(KEY, 35, 40) == 40
    assert refusal(quotas, 1, 1).status == 429


def test_a_request_alone_begins_where_what_is_likely_fits_and_no_other_beside_it():
    quotas = Quotas()
    reserved = quotas.reserve(KEY, 20, 300)
    refused = refusal(quotas, 1, 1)
    assert reserved == 60 and (refused.status, refused.headers["Retry-After"]) == (429, "1")
    quotas.settle(KEY, reserved, 0)
    assert quotas.reserve(KEY, 20, 300) == 60


def test_what_is_reserved_for_a_request_makes_room_for_what_comes_in_its_place():
    quotas = Quotas()
    other, reserved = quotas.reserve(KEY, 10, 10), quotas.reserve(KEY, 20, 20)
    assert quotas.reserve(KEY, 45, 50, reserved) == 50
    with pytest.raises(RefusedError):
        quotas.reserve(KEY, 51, 51, 50)
    quotas.settle(KEY, 50, 0)
    quotas.settle(KEY, other, 0)
    alone = quotas.reserve(KEY, 20, 300)
    assert quotas.reserve(KEY, 30, 400, alone) == alone == 60


def test_a_request_that_is_larger_than_the_quota_is_told_so_and_not_to_wait():
    refused = refusal(Quotas(), 61, 61)
    assert (refused.status, refused.param) == (400, "max_tokens") and "60 per 1 minute" in refused.message
    assert "Retry-After" not in refused.headers


@pytest.mark.planted
@pytest.mark.parametrize("jump_s", [86_400.0, 3.2e7, -3600.0])
def test_tokens_come_back_in_their_time_whatever_the_wall_clock_does(jump_s, monkeypatch):
    wall, monotonic = time.time, time.monotonic
    passed_s, ahead_s = 0.0, jump_s
    monkeypatch.setattr(time, "time", lambda: wall() + passed_s + ahead_s)
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + passed_s)
    quotas = Quotas()
    quotas.settle(KEY, 0, 60)
    with pytest.raises(RefusedError) as refused:
        quotas.admit(KEY)
    assert 50 <= int(refused.value.headers["Retry-After"]) <= 60
    ahead_s = 0.0
    with pytest.raises(RefusedError) as refused:
        quotas.admit(KEY)
    assert 50 <= int(refused.value.headers["Retry-After"]) <= 60
    passed_s = 61.0
    assert quotas.admit(KEY)["RateLimit"].startswith('"tokens";r=60;')


def test_a_quota_of_another_size_goes_on_where_the_former_one_was():
    quotas = Quotas()
    quotas.settle(replace(KEY, tokens="1000/hour"), 0, 918)
    for quota, left in (("900/hour", 0), ("2000/60 minutes", 1082), ("5/minute", 5)):
        told = quotas.admit(replace(KEY, tokens=quota), takes_tokens=False)["RateLimit"]
        assert f";r={left};" in told
