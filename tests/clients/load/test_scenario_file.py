import math
from datetime import date

import pytest

from attendant.errors import ConfigError, InputError
from clients.load.arrivals import ClosedLoop, Constant, Gamma, Poisson, Ramp, Replay
from clients.load.scenario_file import read_scenario, scenario_from

WHOLE = """
name = "mixed"
seed = 3
warmup_s = 1
duration_s = 10

[target]
transport = "http"
address = "127.0.0.1:8000"
metrics = "127.0.0.1:8002"

[arrivals]
kind = "gamma"
rate = 20
shape = 0.5

[[workloads]]
model = "digits-vit"
weight = 3
inputs = { kind = "random", number = 4, rows = 2 }
expect = { kind = "same" }

[[workloads]]
name = "dates"
model = "dates-transformer"
deadline_ms = 250
cancel = { share = 0.1, after_tokens = 2 }
[workloads.inputs]
kind = "files"
files = ["dates.jsonl"]
[workloads.decoding]
max_tokens = 8
stop = ["."]
logit_bias = { 5 = -100 }
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "scenario.toml"
    path.write_text(WHOLE)
    return path


def test_a_file_says_everything_that_a_scenario_is(path):
    found = read_scenario(path)
    digits, dates = found.workloads
    assert (found.name, found.seed, found.warmup_s, found.duration_s) == ("mixed", 3, 1.0, 10.0)
    assert (found.target.transport, found.target.metrics) == ("http", "127.0.0.1:8002")
    assert found.arrivals == Gamma(rate=20, shape=0.5)
    assert (digits.name, digits.weight, digits.inputs.rows, digits.expect.kind) == ("digits-vit", 3, 2, "same")
    assert dates.cancel is not None
    assert dates.cancel.after_tokens == 2
    assert dates.decoding is not None
    assert (dates.decoding.max_tokens, dates.decoding.stop, dates.decoding.logit_bias) == (8, (".",), {5: -100.0})


def test_files_are_sought_beside_the_scenario(path):
    assert read_scenario(path).workloads[1].inputs.files == (str(path.parent / "dates.jsonl"),)


def test_a_scenario_read_again_from_its_plain_values_is_the_same(path):
    found = read_scenario(path)
    assert scenario_from(found.plain()) == found


@pytest.mark.parametrize(
    ("told", "arrivals"),
    [
        ({}, ClosedLoop(concurrency=1)),
        ({"kind": "closed", "concurrency": 4}, ClosedLoop(concurrency=4)),
        ({"kind": "constant", "rate": 5}, Constant(rate=5)),
        ({"kind": "poisson", "rate": 5.5}, Poisson(rate=5.5)),
        ({"kind": "ramp", "first_rate": 1, "last_rate": 9}, Ramp(first_rate=1, last_rate=9)),
        ({"kind": "replay", "trace": "a.csv", "speed": 2}, Replay(trace="a.csv", speed=2)),
    ],
)
def test_every_kind_of_arrivals_has_a_name(told, arrivals):
    found = scenario_from({"arrivals": told, "workloads": [{"model": "m"}], "duration_s": 1})
    assert found.arrivals == arrivals


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"speed": 1}, "speed"),
        ({"duration_s": "long"}, "duration_s"),
        ({"duration_s": True}, "duration_s"),
        ({"seed": 1.5}, "seed"),
        ({"workloads": []}, "workloads"),
        ({"workloads": {"model": "m"}}, r"\[\[workloads\]\]"),
        ({"workloads": [{"weight": 1}]}, "workloads.0.name"),
        ({"workloads": [{"model": "m"}, {"model": "m"}]}, "different names"),
        ({"workloads": [{"model": "m", "weight": 0}]}, "workloads.0 with weight"),
        ({"workloads": [{"model": "m", "inputs": {"kind": "guess"}}]}, "workloads.0.inputs.kind"),
        ({"workloads": [{"model": "m", "inputs": {"kind": "texts"}}]}, "workloads.0.inputs with texts"),
        ({"workloads": [{"model": "m", "inputs": {"texts": ["a", 1]}}]}, "workloads.0.inputs.texts"),
        ({"workloads": [{"model": "m", "cancel": {"share": 2, "after_ms": 1}}]}, "workloads.0.cancel with a share"),
        ({"workloads": [{"model": "m", "cancel": {"share": 1}}]}, "after_tokens or after_ms"),
        ({"workloads": [{"model": "m", "decoding": {"max_token": 1}}]}, "workloads.0.decoding.max_token"),
        ({"workloads": [{"model": "m", "expect": {"kind": "text"}}]}, "workloads.0.expect with answers"),
        ({"target": {"transport": "udp"}}, "target.transport"),
        ({"target": {"transport": "openai", "shared_memory": True}}, "target with shared_memory"),
        ({"target": "here"}, "target, a table"),
        ({"arrivals": {"kind": "random"}}, "arrivals.kind"),
        ({"arrivals": {"kind": "poisson"}}, "arrivals.rate"),
        ({"arrivals": {"kind": "poisson", "rate": 0}}, "arrivals with rate"),
        ({"duration_s": None}, "duration_s nor requests"),
        ({"workloads": [{"model": "m", "weight": 1e10}]}, "workloads.0 with weight"),
        *(({"workloads": [{"model": "m", "weight": w}]}, "weight, a finite") for w in (math.inf, math.nan, 10**400)),
        ({"workloads": [{"model": "m", "parameters": {"a": date(2026, 1, 1)}}]}, "JSON in workloads.0.parameters"),
        ({"workloads": [{"model": "m", "decoding": {"logit_bias": {"²": 1}}}]}, "logit_bias, a token's number"),
        ({"workloads": [{"model": "m", "decoding": {"logit_bias": {"2": "x"}}}]}, "logit_bias, float"),
        *(({"warmup_s": seconds}, "warmup_s of 0 to") for seconds in (-5, 1e300)),
        *(({"warmup_s": seconds}, "warmup_s, a finite number") for seconds in (math.nan, math.inf)),
        ({"duration_s": math.inf}, "duration_s, a finite number"),
        ({"duration_s": 1e300}, "duration_s above 0"),
        *(({name: 10**400}, f"{name}, a finite number") for name in ("seed", "requests", "max_concurrency")),
        *(
            ({"workloads": [{"model": "m", "inputs": {name: 10**9}}]}, f"{name} above")
            for name in ("number", "rows", "size")
        ),
        *(({name: 16**5000}, name) for name in ("name", "requests", "target", "arrivals", "workloads")),
        ({"arrivals": {"kind": 16**5000}}, "arrivals.kind"),
        ({"target": {"connections": 10**9}}, "target with connections above 0"),
        ({"target": {"transport": ["grpc"]}}, "target.transport"),
        ({"arrivals": {"kind": ["closed"]}}, "arrivals.kind"),
        ({"in_process": {"requests": 10**12}}, "in_process with requests"),
        ({"workloads": [{"model": "m", "expect": {"tolerance": math.nan}}]}, "tolerance, a finite"),
        ({"workloads": [{"model": "m", "deadline_ms": -1}]}, "workloads.0 with deadline_ms"),
        ({"workloads": [{"model": "m", "decoding": {"logit_bias": {"9" * 5000: 1}}}]}, "logit_bias, a token's number"),
        ({"arrivals": {"kind": "closed", "concurrency": 10**9}}, "concurrency from 1 to"),
    ],
)
def test_what_is_wrong_is_told_by_its_key(change, key):
    table = {"workloads": [{"model": "m"}], "duration_s": 1} | change
    with pytest.raises(ConfigError, match=key):
        scenario_from({name: value for name, value in table.items() if value is not None})


@pytest.mark.parametrize("content", [None, "a ="])
def test_a_file_that_is_missing_or_no_toml_is_refused(tmp_path, content):
    path = tmp_path / "x.toml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError, match="scenario in TOML"):
        read_scenario(path)
