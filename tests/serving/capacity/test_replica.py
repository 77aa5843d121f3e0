"""A simulated replica waits as queueing theory says, and decides as the engine does that runs a real model."""

from dataclasses import replace
from math import factorial

import numpy as np
import pytest

from attendant.manifest import Manifest
from attendant.sampling_params import SamplingParams
from serving.capacity.profile import EngineOverhead, ServerOverhead
from serving.capacity.replica import Arrival, Replica
from serving.capacity.simulated_model import SimulatedDecoder, create_model
from serving.engine.engine import Engine
from serving.engine.settings import EngineSettings
from serving.engine.text_generation_model import LanguageModel
from tests.serving.capacity.profiles import flat, profile


def engine_settings(slots, **others):
    return EngineSettings(**{"max_num_seqs": slots, "max_queue_size": 10**6, "prefix_cache_bytes": 0, **others})


def poisson(count, rate, answers, seed=0):
    """Requests of one token each, which is decoded at once, and answers of so many; the mean gap is exact."""
    at_s = np.cumsum(np.random.default_rng(seed).exponential(1.0, count))
    at_s *= count / rate / at_s[-1]
    return [Arrival(at_s=float(at), prompt=1, answer=int(answer)) for at, answer in zip(at_s, answers, strict=True)]


def times_s(simulated, skipped):
    return np.array([one.responses_s[-1] - one.sent_s for one in simulated.requests[skipped:]])


@pytest.mark.parametrize("load", [0.3, 0.5, 0.7])
def test_one_slot_and_one_length_wait_as_m_d_1_does(load):
    service_s, count = 0.01, 12_000
    arrivals = poisson(count, load / service_s, np.ones(count))
    found = Replica(profile(service_s), engine_settings(1)).run(arrivals)
    waits_s = times_s(found, 0) - service_s
    assert waits_s.mean() == pytest.approx(load / (2 * (1 - load)) * service_s, rel=0.06)  # Pollaczek-Khinchine
    assert (waits_s < 1e-9).mean() == pytest.approx(1 - load, abs=0.02)  # who comes finds nobody
    assert found.load.worked_s / found.load.seconds == pytest.approx(load, rel=0.03)


def test_one_slot_waits_as_the_recursion_of_lindley_says_request_by_request():
    service_s = 0.01
    rng = np.random.default_rng(1)
    answers = rng.integers(1, 6, 400)
    arrivals = poisson(400, 30, answers)
    found = Replica(profile(service_s), engine_settings(1)).run(arrivals)
    free_s, ends_s = 0.0, []
    for arrival in arrivals:
        free_s = max(free_s, arrival.at_s) + arrival.answer * service_s
        ends_s.append(free_s)
    assert [one.responses_s[-1] for one in found.requests] == pytest.approx(ends_s)


def test_several_slots_wait_as_m_m_c_does():
    # Tokens of geometric answers are exponential times, cut into steps; who comes within a step waits for half of one.
    slots, mean, step_s, load, count = 3, 25, 0.001, 0.7, 3000
    arrivals = poisson(count, load * slots / (mean * step_s), np.random.default_rng(5).geometric(1 / mean, count))
    found = Replica(profile(step_s), engine_settings(slots)).run(arrivals)
    offered = load * slots
    terms = [offered**k / factorial(k) for k in range(slots)]
    waiting = offered**slots / factorial(slots) / (1 - load)
    erlang_c = waiting / (sum(terms) + waiting)
    expected_s = erlang_c * mean * step_s / (slots * (1 - load)) + mean * step_s + step_s / 2
    assert times_s(found, 200).mean() == pytest.approx(expected_s, rel=0.06)
    assert found.load.running / found.load.seconds == pytest.approx(offered, rel=0.05)


def test_what_is_in_the_replica_on_average_is_its_rate_times_the_time_there():
    rng = np.random.default_rng(2)
    at_s = np.cumsum(rng.exponential(1 / 20, 1500))
    arrivals = [
        Arrival(at_s=float(at), prompt=int(rng.integers(2, 300)), answer=int(rng.integers(1, 60))) for at in at_s
    ]
    found = Replica(profile(0.004, 0.02), engine_settings(8)).run(arrivals)
    inside = (found.load.running + found.load.waiting) / found.load.seconds
    rate = len(arrivals) / found.load.seconds
    # A step begins with who came before it: of a request's time all but the wait for the next step is seen.
    assert inside == pytest.approx(rate * times_s(found, 0).mean(), rel=0.08)


def alone(made):
    return Replica(made, engine_settings(4)).run([Arrival(at_s=1.0, prompt=9, answer=2)]).requests[0].responses_s


def test_what_a_server_adds_comes_on_top():
    served = ServerOverhead(request_s=0.1, factor=2.0)
    first_s = 1.0 + 2 * 0.02 + 0.1
    assert alone(profile(0.01, 0.02, served=served)) == pytest.approx([first_s, first_s + 2 * 0.01])


def test_what_an_engine_adds_comes_on_top():
    overhead = EngineOverhead(step_s=0.001, row_s=0.002, prompt_s=0.003, request_s=0.004)
    assert alone(profile(0.01, 0.02, overhead=overhead)) == pytest.approx([1.027, 1.027 + 0.013])


def test_a_whole_answer_comes_with_its_last_token():
    replica = Replica(profile(0.01, 0.02), engine_settings(4), stream=False)
    found = replica.run([Arrival(at_s=1.0, prompt=9, answer=3)]).requests[0]
    assert found.responses_s == pytest.approx([1.04]) and found.tokens == [3] and found.is_finished


def test_time_passes_between_requests_without_work():
    found = Replica(profile(0.01), engine_settings(1)).run([Arrival(at_s=at, prompt=1, answer=2) for at in (1.0, 5.0)])
    assert found.load.seconds == pytest.approx(5.02) and found.load.worked_s == pytest.approx(0.04)


def test_a_translators_sources_are_encoded_together_and_its_answers_decoded():
    made = replace(profile(0.01), encoder=flat(0.5), prompt=None)
    arrivals = [Arrival(at_s=0.0, prompt=length, answer=3) for length in (5, 9)]
    found = Replica(made, engine_settings(4)).run(arrivals)
    assert [one.responses_s[-1] for one in found.requests] == pytest.approx([0.53, 0.53])


def test_one_too_many_is_refused_and_who_is_late_is_told():
    arrivals = [Arrival(at_s=0.0, prompt=1, answer=50, deadline_ms=200) for _ in range(4)]
    found = Replica(profile(0.01), engine_settings(1, max_queue_size=2)).run(arrivals)
    assert [one.error for one in found.requests] == ["DeadlineError", "DeadlineError", "BusyError", "BusyError"]
    assert found.meter.deadline_exceeded == 2 and found.meter.rejected == 2


class Recorded:
    """A decoder that notes what each run is fed, and lets a clock go on by what a profile says of it."""

    def __init__(self, runner, seconds):
        self._runner, self._seconds = runner, seconds
        self.signature, self.allocate = runner.signature, runner.allocate
        self.runs = []

    def run(self, feeds):
        shapes = feeds["token_ids"].shape, feeds["self_mask"].shape, feeds["scored"].shape
        self.runs.append((*shapes, feeds["start"].tolist()))
        self._seconds(feeds)
        return self._runner.run(feeds)


class RealReplica(Replica):
    """A real engine over a real model on a virtual clock: only what its runs take is the profile's."""

    def __init__(self, model, made, settings):
        super().__init__(made, settings)
        timed = SimulatedDecoder(made, self.clock)
        self.recorded = Recorded(model.runners["decoder"], timed.run)
        self.engine = Engine(replace(model.loaded, decoder=self.recorded), settings, clock=self.clock)
        self.simulation.meter = self.engine.meter
        self._model, self._rng = model, np.random.default_rng(0)

    def _create_request(self, arrival):
        options = SamplingParams(
            max_tokens=arrival.answer,
            ignore_eos=True,
            priority=arrival.priority,
            deadline_ms=arrival.deadline_ms,
        )
        return self._model.request([int(token) for token in self._rng.integers(2, 320, arrival.prompt)], options)


@pytest.mark.parametrize(("slots", "waiting", "budget"), [(4, 50, 8), (2, 5, 5), (8, 50, 32)])
def test_the_simulation_decides_as_the_engine_that_runs_a_real_model(language_model, slots, waiting, budget):
    model = LanguageModel(language_model, Manifest.read(language_model))
    rng = np.random.default_rng(slots)
    served = ServerOverhead(request_s=0.003, factor=1.5)
    made = profile(0.004, 0.011, capacity=64, served=served)
    settings = EngineSettings(
        max_num_seqs=slots, max_queue_size=waiting, max_prefill_tokens=budget, prefix_cache_bytes=0
    )
    at_s = np.cumsum(rng.exponential(0.02, 90))
    arrivals = [
        Arrival(
            at_s=float(at),
            prompt=int(rng.integers(1, 20)),
            answer=int(rng.integers(1, 12)),
            priority=int(rng.integers(0, 2)),
            deadline_ms=int(rng.integers(40, 400)) if rng.random() < 0.3 else None,
        )
        for at in at_s
    ]
    real = RealReplica(model, made, settings)
    replica = Replica(made, settings)
    written = create_model(made, replica.clock)
    recorded = Recorded(written.decoder, lambda feeds: None)
    replica.engine = Engine(replace(written, decoder=recorded), settings, clock=replica.clock)
    replica.simulation.meter = replica.engine.meter
    found, expected = replica.run(arrivals), real.run(arrivals)
    assert recorded.runs == real.recorded.runs and len(recorded.runs) > 100
    assert [one.responses_s for one in found.requests] == [one.responses_s for one in expected.requests]
    assert [one.tokens for one in found.requests] == [one.tokens for one in expected.requests]
    assert [one.error for one in found.requests] == [one.error for one in expected.requests]
    assert len({one.error for one in found.requests}) >= 2  # some were late or refused
    for count in ("finished", "deadline_exceeded", "rejected", "steps", "tokens", "prompt_tokens"):
        assert getattr(found.meter, count) == getattr(expected.meter, count)
