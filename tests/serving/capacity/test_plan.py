"""The least number of replicas that keeps what is promised, what one can do at most, and what cannot be kept."""

from dataclasses import dataclass

import pytest

from attendant.errors import ConfigError
from serving.capacity.demand import Demand
from serving.capacity.lengths import ConstantLength, LognormalLengths, UniformLengths
from serving.capacity.levels import Levels
from serving.capacity.plan import plan
from serving.engine.settings import EngineSettings
from tests.serving.capacity.profiles import flat, profile


@dataclass(frozen=True)
class Bound:
    metric: str
    statistic: str
    limit_s: float


def levels(made=None, slots=4, rate=100.0, answer=10, requests=600, **asked):
    demand = Demand(rate=rate, prompt=ConstantLength(tokens=1), answer=ConstantLength(tokens=answer), **asked)
    settings = EngineSettings(max_num_seqs=slots, prefix_cache_bytes=0, max_queue_size=1000)
    return Levels(profile=made or profile(0.01), settings=settings, demand=demand, requests=requests)


def test_a_replica_saturates_where_all_its_slots_are_always_full():
    limit = levels(slots=4).saturation
    assert limit.requests == pytest.approx(4 / 0.1, rel=0.02) and limit.tokens == pytest.approx(4 / 0.01, rel=0.02)


def test_a_demand_takes_the_least_number_of_replicas_that_keeps_every_promise():
    found = plan(levels(), [Bound("request_latency", "p95", 0.15)])
    results = found.levels
    assert found.replicas in results and found.replicas + 1 in results
    assert results[found.replicas].missed(found.objectives) == []
    assert results[found.replicas - 1].missed(found.objectives) != []
    assert found.replicas >= 100 / 40


def test_without_promises_a_demand_takes_as_many_as_do_not_saturate():
    found = plan(levels(rate=70.0), [])
    assert found.replicas == 2 and found.utilization == pytest.approx(70 / 80, rel=0.1)


def test_a_replica_beyond_its_limit_refuses_or_makes_wait():
    result = levels(rate=100.0, requests=3000).simulate(1)
    assert result.refused > 0.2 and result.answered == pytest.approx(40, rel=0.05)
    assert result.busy == pytest.approx(1.0, abs=0.01) and result.running == pytest.approx(4, abs=0.1)


def test_what_replicas_and_gpus_cost_is_added_up():
    made = profile(0.01, gpus=2)
    found = plan(levels(made, rate=70.0, price_per_gpu_hour=3.0, price_per_replica_hour=0.5), [])
    assert (found.gpus, found.price_per_hour) == (4, 13.0)
    assert found.to_json()["price_per_month"] == 13.0 * 730


def test_what_no_number_of_replicas_keeps_is_said():
    with pytest.raises(
        ConfigError, match=r"request_latency p95 of at most 0.05 s; found 0.1\d* s; no number of replicas"
    ):
        plan(levels(requests=200), [Bound("request_latency", "p95", 0.05)])


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({"answer": UniformLengths(least=1, most=2000)}, "at most 1024 positions together"),
        ({"prompt": LognormalLengths(median=9, p95=90, most=1020)}, "at most 1024 positions together"),
    ],
)
def test_a_demand_beyond_the_capacity_is_refused(asked, wanted):
    parts = {"prompt": ConstantLength(tokens=5), "answer": ConstantLength(tokens=5), **asked}
    with pytest.raises(ConfigError, match=wanted):
        Levels(profile=profile(), settings=EngineSettings(), demand=Demand(rate=1.0, **parts))


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({"max_num_seqs": 65}, "sizes of the profile's 'decode' up to 65"),
        ({"max_prefill_tokens": 300}, "'prompt' up to 300"),
    ],
)
def test_settings_beyond_the_profile_are_refused(settings, wanted):
    demand = Demand(rate=1.0, prompt=ConstantLength(tokens=5), answer=ConstantLength(tokens=5))
    with pytest.raises(ConfigError, match=wanted):
        Levels(profile=profile(), settings=EngineSettings(**settings), demand=demand)


def test_sources_beyond_the_encoder_are_refused():
    made = profile(encoder=flat(0.01, capacity=48))
    demand = Demand(rate=1.0, prompt=ConstantLength(tokens=49), answer=ConstantLength(tokens=5))
    with pytest.raises(ConfigError, match="sources of at most 48"):
        Levels(profile=made, settings=EngineSettings(), demand=demand)


def test_an_unknown_metric_is_named():
    with pytest.raises(ConfigError, match="a metric that is simulated"):
        plan(levels(requests=200), [Bound("time_per_image", "p95", 1.0)])
