"""The benchmarks of generation run through with tiny models, and their figures are those of what was asked."""

import asyncio
from functools import partial
from math import isnan

import pytest

from attendant.sampling_tensors import params_from_tensors, prompt_from_tensors
from benchmarks.continuous_batching import FLIGHTS, in_turns
from benchmarks.generation import mixed_load
from benchmarks.generation.engines import loaded
from benchmarks.generation.mix import mix
from benchmarks.generation.quiet import counting
from benchmarks.generation.served import server_over
from benchmarks.generation.tensors import request_tensors
from benchmarks.generation.throughput import rate_served
from benchmarks.serving_overhead import TOGETHER, cases_of, measured, report
from serving.engine.settings import EngineSettings
from tests.conftest import DATES, LANGUAGE_MODEL

pytestmark = pytest.mark.slow

SETTINGS = EngineSettings(prefix_cache_bytes=0)


@pytest.fixture(scope="module")
def model(language_model):
    return loaded(language_model, SETTINGS)


def test_options_travel_as_they_are():
    for one in mix(["stdlib-lm", "dates-gru"], 300, 1.0, seed=2):
        tensors = request_tensors("a text", one.options, one.stream)
        assert params_from_tensors(tensors, explain=False) == one.options
        assert prompt_from_tensors(tensors) == "a text"


def test_every_number_in_flight_is_measured_in_every_round(model):
    rates = in_turns(model, rounds=2, tokens=4, patience_s=0.0)
    assert [(name, len(values)) for name, values in rates.items()] == [(str(flights), 2) for flights in FLIGHTS]
    assert min(rate for samples in rates.values() for rate, _ in samples) > 0


def test_streams_of_a_server_are_measured_too(server, model):
    ask = partial(rate_served, server.grpc, LANGUAGE_MODEL, model.vocabulary_size, 4, 8)
    rates = [asyncio.run(ask(seed)) for seed in range(6)]  # so few tokens may come at once
    assert max(rate for rate in rates if not isnan(rate)) > 0


def test_arrivals_and_what_they_find_before_them_are_recorded(model, monkeypatch):
    for name, value in {"SHORTEST": 4, "LONGEST": 16, "ANSWER": 2, "DECODED": 20}.items():
        monkeypatch.setattr(mixed_load, name, value)
    waiting = mixed_load.mixed(model, budget=8, rate=20.0, seconds=1.0)
    assert len(waiting.first_ms) == len(waiting.line) == len(waiting.prompts) > 5
    assert all(line >= -(-length // 8) for line, length in zip(waiting.line, waiting.prompts, strict=True))
    assert len(waiting.between_ms) >= len(waiting.reading_ms) > 0


def test_both_sides_of_every_case_are_timed(dates_artefact, tmp_path):
    with server_over({DATES: dates_artefact}, tmp_path, SETTINGS) as server:
        found = asyncio.run(measured(DATES, loaded(dates_artefact, SETTINGS), server, blocks=1, patience_s=0.0))
    assert found.keys() == {case.name for case in cases_of(DATES)}
    assert all(len(one["inside"]) == len(one["served"]) == TOGETHER for one in found.values())
    assert f"| {DATES} | unary, 1 tokens, 1 at once |" in report({DATES: found})


def test_samples_count_where_others_left_the_machine_alone():
    assert counting([(1.0, 0.5), (2.0, 0.0), (3.0, 0.09)]) == ([2.0, 3.0], "")
    assert counting([(1.0, 0.5), (2.0, 0.0), (3.0, 0.4), (4.0, 0.2)]) == ([2.0, 4.0, 3.0], " ?")
