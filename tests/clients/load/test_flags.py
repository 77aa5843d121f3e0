"""Flags go before a scenario's file, none is ignored, and what contradicts is refused by its name."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from attendant.errors import ConfigError, InputError
from clients.load.arrivals import ClosedLoop, Constant, Gamma, Poisson, Replay
from clients.load.flags import ArrivalFlags, LoadFlags, lay_over
from clients.load.run_file import read_run
from clients.load.scenario import ADDRESSES
from clients.load.scenario_file import read_scenario
from clients.tls import Tls

SCENARIO = """
name = "digits"
duration_s = 5.0
[target]
address = "there:1"
metrics = "there:2"
[arrivals]
kind = "constant"
rate = 1.0
[[workloads]]
model = "digits-vit"
"""
NO_FLAGS = LoadFlags()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "scenario.toml"
    path.write_text(SCENARIO)
    return path


def test_without_flags_a_file_is_as_it_stands(file):
    assert lay_over(file, NO_FLAGS) == read_scenario(file)


def test_flags_go_before_the_file(file):
    flags = LoadFlags(
        model="other",
        server="here:3",
        metrics="here:4",
        duration_s=2.0,
        warmup_s=0.5,
        requests=9,
        seed=4,
        in_process="r",
    )
    found = lay_over(file, flags, ArrivalFlags(rate=7.0), Tls(tls=True, ca=Path("ca.pem")))
    assert (found.target.address, found.target.metrics) == ("here:3", "here:4")
    assert (found.target.tls, found.target.ca) == (True, "ca.pem")
    assert (found.duration_s, found.warmup_s, found.requests, found.seed) == (2.0, 0.5, 9, 4)
    assert (found.workloads[0].model, found.in_process.repository) == ("other", "r")
    assert found.arrivals == Constant(rate=7.0)


@pytest.mark.parametrize("transport", ["grpc", "http", "openai"])
def test_each_transport_has_an_address_of_its_own(transport, file):
    alone = lay_over(None, LoadFlags(model="m", transport=transport))
    assert (alone.target.transport, alone.target.address) == (transport, ADDRESSES[transport])
    file.write_text(f'duration_s = 1.0\n[target]\ntransport = "{transport}"\n[[workloads]]\nmodel = "m"\n')
    assert read_scenario(file).target.address == ADDRESSES[transport]
    file.write_text(SCENARIO)
    assert len(set(ADDRESSES.values())) == len(ADDRESSES)
    over = lay_over(file, LoadFlags(transport=transport))
    assert over.target.address == ("there:1" if transport == "grpc" else ADDRESSES[transport])


@pytest.mark.parametrize(
    ("flags", "arrivals"),
    [
        (ArrivalFlags(), ClosedLoop()),
        (ArrivalFlags(concurrency=3), ClosedLoop(concurrency=3)),
        (ArrivalFlags(rate=2.0), Poisson(rate=2.0)),
        (ArrivalFlags(rate=2.0, arrivals="constant"), Constant(rate=2.0)),
        (ArrivalFlags(rate=2.0, arrivals="gamma"), Gamma(rate=2.0, shape=0.5)),
        (ArrivalFlags(rate=2.0, arrivals="gamma", shape=3.0), Gamma(rate=2.0, shape=3.0)),
        (ArrivalFlags(trace=Path("t.csv"), speed=2.0), Replay(trace="t.csv", speed=2.0)),
    ],
)
def test_flags_say_when_requests_come(flags, arrivals):
    assert lay_over(None, LoadFlags(model="m"), flags).arrivals == arrivals


def test_a_trace_ends_with_its_last_request():
    assert lay_over(None, LoadFlags(model="m"), ArrivalFlags(trace=Path("t.csv"))).duration_s is None
    assert lay_over(None, LoadFlags(model="m")).duration_s == 10.0


@pytest.mark.parametrize(
    ("flags", "arrivals", "named"),
    [
        ({}, {"rate": 1.0, "concurrency": 2}, "--concurrency and --rate"),
        ({}, {"rate": 1.0, "trace": Path("t.csv")}, "--rate and --trace"),
        ({}, {"speed": 2.0}, "--speed"),
        ({}, {"shape": 2.0}, "--shape"),
        ({}, {"arrivals": "gamma"}, "--arrivals"),
        ({}, {"rate": 1.0, "shape": 2.0}, "--shape"),
        ({"prompt": ("a",), "input_tokens": 8}, {}, "--prompt and --input-tokens"),
        ({"prompt": ("a",), "dataset": Path("d.jsonl")}, {}, "--prompt and --dataset"),
        ({"prefix_tokens": 8}, {}, "--prefix-tokens"),
        ({"turns": 2}, {}, "--turns"),
        ({"endpoint": "chat"}, {}, "--endpoint"),
        ({"input_tokens": 0}, {}, "input_tokens"),
        ({"input_tokens": 8, "prefix_tokens": 9}, {}, "prefix_tokens"),
        ({"input_tokens": 1_000_000, "turns": 100}, {}, "20000000"),
        ({"transport": "openai", "server": "127.0.0.1:8080"}, {}, "scheme"),
        ({"server": "http://127.0.0.1:8001"}, {}, "host and port"),
    ],
)
def test_what_contradicts_is_refused_by_its_name(flags, arrivals, named):
    with pytest.raises(ConfigError, match=named):
        lay_over(None, LoadFlags(model="m", **flags), ArrivalFlags(**arrivals))


def test_neither_a_file_nor_a_model_is_refused():
    with pytest.raises(ConfigError, match="--model"):
        lay_over(None, NO_FLAGS)


def test_a_flag_of_one_workload_is_refused_of_several(file):
    file.write_text(SCENARIO + '[[workloads]]\nmodel = "digits-swin"\n')
    assert len(lay_over(file, LoadFlags(duration_s=2.0)).workloads) == 2
    with pytest.raises(ConfigError, match=r"one workload .* --prompt"):
        lay_over(file, LoadFlags(prompt=("a",)))


def test_other_inputs_than_those_whose_answers_are_known_are_refused(file):
    file.write_text(SCENARIO + 'expect = { kind = "example" }\n')
    with pytest.raises(ConfigError, match=r"--prompt"):
        lay_over(file, LoadFlags(prompt=("a",)))


def test_prompts_and_lengths_become_a_workload(tmp_path):
    texts = lay_over(None, LoadFlags(model="m", prompt=("a", "b"), output_tokens=5)).workloads[0]
    assert (texts.inputs.kind, texts.inputs.texts) == ("texts", ("a", "b"))
    assert (texts.decoding.max_tokens, texts.decoding.ignore_eos) == (5, True)
    openai = {"model": "m", "transport": "openai"}
    made = lay_over(None, LoadFlags(**openai, input_tokens=100, prefix_tokens=40, turns=3)).workloads[0]
    assert (made.inputs.kind, made.inputs.input_tokens, made.inputs.prefix_tokens) == ("synthetic", 100, 40)
    assert (made.inputs.turns, made.inputs.number, made.endpoint) == (3, 1024, "chat")
    assert lay_over(None, LoadFlags(**openai, input_tokens=100)).workloads[0].endpoint == "completions"
    dataset = tmp_path / "dataset.jsonl"
    for line, endpoint in (('{"text": "a"}', "completions"), ('{"messages": []}', "chat")):
        dataset.write_text(line)
        assert lay_over(None, LoadFlags(**openai, dataset=dataset)).workloads[0].endpoint == endpoint
    with pytest.raises(ConfigError, match="endpoint chat"):
        lay_over(None, LoadFlags(**openai, input_tokens=100, turns=2, endpoint="completions"))


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        lay_over(tmp_path / "none.toml", NO_FLAGS)


def test_ctrl_c_keeps_what_was_measured(known, tmp_path):
    out = tmp_path / "run.json"
    inputs = tmp_path / "quick.toml"
    inputs.write_text('duration_s = 60.0\n[[workloads]]\nmodel = "quick"\ninputs = { kind = "zeros" }\n')
    words = ["load", "run", str(inputs), "--server", known, "--out", str(out)]
    running = subprocess.Popen(
        [sys.executable, "-m", "attendant", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for line in running.stderr:  # a line of progress, after five seconds
        if "requests/s" in line:
            break
    running.send_signal(signal.SIGINT)
    shown, told = running.communicate(timeout=30)
    assert (running.returncode, told) == (130, "")
    assert "cut short by Ctrl-C" in " ".join(shown.split())
    assert read_run(out).interrupted
    assert len(read_run(out).records) > 10
