"""A profile is a JSON file, measured or written by hand; a mistake in it is named."""

import json
import math
import resource

import pytest

from attendant.errors import ConfigError
from serving.capacity.profile import EngineOverhead, ReplicaProfile, ServerOverhead
from tests.serving.capacity.profiles import flat, profile

BY_HAND = {
    "name": "llama-8b",
    "machine": "one H100, by hand",
    "gpus": 1,
    "capacity": 4096,
    "decode": {"sizes": [1, 64], "lengths": [1, 4096], "seconds": [[0.006, 0.007], [0.009, 0.02]]},
    "prompt": {"sizes": [1, 2048], "lengths": [1, 4096], "seconds": [[0.006, 0.007], [0.06, 0.08]]},
}


def written(tmp_path, value):
    path = tmp_path / "profile.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def test_a_profile_is_read_as_it_was_written(tmp_path):
    made = profile(
        encoder=flat(0.001),
        overhead=EngineOverhead(step_s=1e-4, row_s=1e-5),
        served=ServerOverhead(request_s=1e-3, factor=1.5),
        fit_error={"decode": 0.02},
        gpus=2,
    )
    made.write(tmp_path / "new" / "profile.json")
    assert ReplicaProfile.read(tmp_path / "new" / "profile.json") == made


def test_a_profile_that_cannot_be_written_whole_leaves_the_one_before(tmp_path):
    path, before = tmp_path / "profile.json", profile()
    before.write(path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            profile(gpus=2).write(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert ReplicaProfile.read(path) == before


def test_a_profile_can_be_written_by_hand(tmp_path):
    read = ReplicaProfile.read(written(tmp_path, BY_HAND))
    assert read.gpus == 1 and read.decode.at(64, 4096) == 0.02 and read.served == ServerOverhead()


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("{", "a JSON or TOML file at"),
        ("[]", "an object in"),
        ({**BY_HAND, "decod": {}}, "keys of .*profile.json among"),
        ({key: value for key, value in BY_HAND.items() if key != "decode"}, "decode in .*profile.json; found nothing"),
        ({**BY_HAND, "decode": 5}, "an object as 'decode' of"),
        ({**BY_HAND, "decode": {**BY_HAND["decode"], "sizes": [2, 1]}}, "that rise in 'decode' of"),
        ({**BY_HAND, "decode": {**BY_HAND["decode"], "seconds": ["a", "b"]}}, "in 'decode' of"),
        ({**BY_HAND, "capacity": 9999}, "lengths of 'decode' up to the capacity, 9999"),
        ({**BY_HAND, "served": {"request_s": -1}}, "request_s of at least 0 in 'served' of"),
        ({**BY_HAND, "served": {"factor": 0}}, "a factor above 0 in 'served' of"),
        ({**BY_HAND, "served": [{"tokens_per_s": 1}]}, "an object as 'served' of"),
        ({**BY_HAND, "prompt": None}, "a table 'prompt' or 'encoder'"),
        *(({**BY_HAND, name: None}, f"{name} of the right type in") for name in ("decode", "overhead", "served")),
        *(({**BY_HAND, "fit_error": error}, "fit_error of") for error in ([0.1], None, {"a": "x"})),
        *(({**BY_HAND, "served": {"request_s": value}}, "request_s of") for value in (math.inf, math.nan, 1e300, "x")),
        *(({**BY_HAND, "served": {"factor": value}}, "factor of") for value in (math.inf, True)),
        ({**BY_HAND, "overhead": {"step_s": math.inf}}, "step_s of numbers up to 1e"),
        *(({**BY_HAND, name: 10**400}, f"{name} of numbers") for name in ("gpus", "capacity")),
        ({**BY_HAND, "gpus": 1.5}, "gpus of the right type"),
        ({**BY_HAND, "name": 5}, "name of the right type"),
        ({**BY_HAND, "decode": {**BY_HAND["decode"], "sizes": [1, True]}}, "sizes of the right type"),
        ({**BY_HAND, "decode": {**BY_HAND["decode"], "seconds": [[1, 1], [1, math.inf]]}}, "seconds of numbers"),
        ("[" * 5000, "a JSON or TOML file at"),
    ],
)
def test_a_mistake_in_a_profile_is_named(tmp_path, value, wanted):
    with pytest.raises(ConfigError, match=wanted):
        ReplicaProfile.read(written(tmp_path, value))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"a JSON or TOML file at .*nowhere.json"):
        ReplicaProfile.read(tmp_path / "nowhere.json")
