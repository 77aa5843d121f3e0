"""The comparison with AIPerf: what counts as agreement, and our side of it against a server of known times."""

import os
from dataclasses import replace
from itertools import pairwise

import pytest

from benchmarks.aiperf.__main__ import known_figures
from benchmarks.aiperf.agreement import agreement
from benchmarks.aiperf.servers import known_times, on_cores
from benchmarks.aiperf.tools import PAUSE, StreamedLoad, aiperf_command, our_round, write_tokenizer

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("aiperf", "ours", "verdict"),
    [
        ([100, 101, 99], [100.5, 100, 101], "yes"),
        ([100, 103, 97], [104, 107, 101], "yes"),
        ([100, 101, 99], [110, 111, 109], "no"),
        ([100, 100, 100], [100.9, 100.9, 100.9], "yes"),
        ([100, 100, 100], [101.1, 101.1, 101.1], "no"),
        ([100, 140, 60], [150, 90, 200], "too noisy"),
        ([100, 101, 99, 100, 500], [100, 101, 99, 100, 100], "yes"),
    ],
)
def test_tools_agree_within_the_noise_of_their_rounds(aiperf, ours, verdict):
    assert agreement(aiperf, ours).verdict == verdict


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    with known_times() as url:
        yield StreamedLoad(
            url=url,
            model="known",
            tokenizer=write_tokenizer(None, tmp_path_factory.mktemp("aiperf") / "tokenizer"),
            endpoint="completions",
            concurrency=4,
            requests=12,
            tokens=10,
        )


@pytest.mark.parametrize("endpoint", ["completions", "chat"])
def test_our_figures_are_never_below_the_truth(load, endpoint):
    found, known = our_round(replace(load, endpoint=endpoint)), known_figures(load.tokens)
    assert found["time_to_first_token p50"] >= known["time_to_first_token p50"] - 0.5
    assert found["request_latency p50"] >= known["request_latency p50"] - 0.5
    assert found["output_token_throughput"] == pytest.approx(10 * found["request_throughput"])
    assert found["request_throughput"] <= 4 / (known["request_latency p50"] / 1e3) * 1.05


def test_a_rate_is_asked_of_both_at_even_distances(load, tmp_path):
    even = replace(load, rate=40.0)
    told = dict(pairwise(aiperf_command(even, tmp_path / "prompts.jsonl", tmp_path)))
    assert (told["--request-rate"], told["--arrival-pattern"]) == ("40.0", "constant")
    assert "--concurrency" not in told
    assert our_round(even)["request_throughput"] < 45


def test_one_caller_says_how_long_it_pauses_between_two_requests(load):
    assert 0 <= our_round(replace(load, concurrency=1, requests=4))[PAUSE] < 100
    assert PAUSE not in our_round(load)


def test_what_is_started_on_some_cores_stays_there():
    before = os.sched_getaffinity(0)
    with on_cores({min(before)}):
        assert os.sched_getaffinity(0) == {min(before)}
    assert os.sched_getaffinity(0) == before


def test_aiperf_is_asked_the_same(load, tmp_path):
    command = aiperf_command(load, tmp_path / "prompts.jsonl", tmp_path)
    told = dict(pairwise(command))
    assert (told["--url"], told["--concurrency"], told["--request-count"]) == (load.url, "4", "12")
    assert told["--extra-inputs"] == '{"max_tokens": 10, "min_tokens": 10}'
    assert {path.name for path in load.tokenizer.iterdir()} == {"tokenizer.json", "tokenizer_config.json"}
