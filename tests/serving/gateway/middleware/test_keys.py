import json
import stat

import pytest

from attendant.errors import ArtefactError, ConfigError, UnknownNameError
from serving.gateway.errors import RefusedError
from serving.gateway.middleware.keys import Key, Keys, new_key, revoke_key
from serving.gateway.middleware.quotas import Quotas


@pytest.fixture
def path(tmp_path):
    return tmp_path / "keys.json"


def test_a_key_is_found_by_its_secret_which_stands_nowhere(path):
    secret = new_key(path, "ann", requests="60/minute")
    other = new_key(path, "ben")
    keys = Keys(path)
    assert (keys.find(secret).name, keys.find(other).name) == ("ann", "ben")
    assert keys.find("") is None and keys.find(secret[:-1]) is None and keys.find(keys.find(secret).sha256) is None
    assert secret.removeprefix("att-") not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_key_that_is_revoked_is_found_no_more(path):
    secret = new_key(path, "ann")
    keys = Keys(path)
    assert keys.find(secret)
    revoke_key(path, "ann")
    assert keys.find(secret) is None
    with pytest.raises(UnknownNameError, match="ann"):
        revoke_key(path, "ann")


def test_a_name_is_given_once_and_a_limit_must_be_one(path):
    new_key(path, "ann")
    with pytest.raises(ConfigError, match="ann"):
        new_key(path, "ann")
    with pytest.raises(ConfigError, match="600/minute"):
        new_key(path, "ben", requests="many")
    assert len(json.loads(path.read_text())["keys"]) == 1


def test_a_damaged_file_is_refused_by_name(path):
    with pytest.raises(ArtefactError, match=r"keys\.json"):
        Keys(path)
    path.write_text('{"keys": [{"who": "ann"}]}')
    with pytest.raises(ArtefactError, match="attendant keys new"):
        Keys(path)


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
    quotas.charge(key, 25)
    with pytest.raises(RefusedError, match="10 per 1 day, of tokens"):
        quotas.admit(key)


def test_a_key_without_limits_is_told_of_none():
    assert Quotas().admit(Key(name="ann", sha256="")) == {}
