"""A demand is a TOML file; its arrivals and lengths are drawn as it says, and a mistake in it is named."""

import os
from pathlib import Path

import numpy as np
import pytest

from attendant.errors import ConfigError
from serving.capacity.demand import Demand, parse_rate
from serving.capacity.lengths import ConstantLength, LognormalLengths, ObservedLengths, UniformLengths

GOOD = """
rate = "36000/h"
prompt = { kind = "lognormal", median = 40, p95 = 120, most = 400 }
answer = { kind = "uniform", least = 10, most = 30 }
slo = "ttft_p95<200ms"
"""


def read(tmp_path, text):
    path = tmp_path / "demand.toml"
    path.write_text(text)
    return Demand.read(path)


def test_a_demand_is_read(tmp_path):
    demand = read(tmp_path, GOOD)
    assert demand.rate == 10.0
    assert demand.prompt == LognormalLengths(median=40, p95=120, most=400) and demand.answer == UniformLengths(
        least=10, most=30
    )


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (("36000/h", "many"), "a rate as 20, 20/s, 300/min or 1000000/h; found 'many'"),
        (("uniform", "normal"), "kind in 'answer' of .*, one of"),
        (("least = 10", "least = 40"), "1 ≤ least ≤ most in 'answer' of .*; found least = 40, most = 30"),
        (("least = 10", "leest = 10"), "keys of 'answer' of .* among"),
        (("slo =", "slos ="), "keys of .*demand.toml among"),
        (("p95 = 120", "p95 = 'x'"), "in 'prompt' of"),
        (("answer =", "answers ="), "keys of"),
        (('{ kind = "uniform", least = 10, most = 30 }', "30"), "a table 'answer' in"),
        (("rate =", "arrivals = 'bursts'\nrate ="), "arrivals, one of"),
        (("rate =", "urgent = 2.0\nrate ="), "urgent of at most 1"),
        (("rate =", "rate ="[:4]), "a JSON or TOML file at"),
    ],
)
def test_a_mistake_in_a_demand_is_named(tmp_path, change, wanted):
    with pytest.raises(ConfigError, match=wanted):
        read(tmp_path, GOOD.replace(*change))


PROMPT = 'prompt = { kind = "lognormal", median = 40, p95 = 120, most = 400 }'


@pytest.mark.parametrize(
    "lengths",
    [
        "kind = 'lognormal', median = nan, p95 = 120, most = 400",
        "kind = 'lognormal', median = 40, p95 = nan, most = 400",
        "kind = 'lognormal', median = 40.6, p95 = 40.6, most = 40.6",
        "kind = 'lognormal', median = 4.5, p95 = 4.5, least = 4.5, most = 9",
        "kind = 'lognormal', median = 40, p95 = 120, most = nan",
        "kind = 'uniform', least = nan, most = nan",
        "kind = 'uniform', least = 1, most = 10_000_001",
        "kind = 'values', values = [nan]",
        "kind = 'values', values = 7",
        "kind = 'constant', tokens = nan",
        "kind = 'constant', tokens = 64.5",
        "kind = 'constant', tokens = true",
        f"kind = 'constant', tokens = 1{'0' * 400}",
        f"kind = 'constant', tokens = 0x{'f' * 5000}",
        "kind = ['constant'], tokens = 7",
    ],
)
def test_lengths_that_cannot_be_are_refused_and_named(tmp_path, lengths):
    with pytest.raises(ConfigError, match=r"'prompt' of .*demand.toml"):
        read(tmp_path, GOOD.replace(PROMPT, f"prompt = {{ {lengths} }}"))


@pytest.mark.parametrize(
    "line",
    [
        *(
            f"rate = {rate}"
            for rate in ("inf", "nan", "0", "true", "[1]", "'1e999/s'", "'.'", "'1.2.3'", "1" + "0" * 400)
        ),
        *(f"slo = {slo}\nrate = 1" for slo in ("5", "true")),
        *("stream = 'no'\nrate = 1", "urgent = true\nrate = 1", "urgent = nan\nrate = 1", "shape = inf\nrate = 1"),
        *(f"price_per_{what}_hour = {price}\nrate = 1" for what in ("gpu", "replica") for price in ("nan", "inf")),
        *("deadline_ms = 1.5\nrate = 1", f"deadline_ms = 0x{'f' * 5000}\nrate = 1", f"rate = 0x{'f' * 5000}"),
    ],
)
def test_a_value_of_another_type_or_without_bounds_is_refused(tmp_path, line):
    with pytest.raises(ConfigError, match=f"{line.split(' ')[0]}"):
        read(tmp_path, GOOD.replace('rate = "36000/h"', line).replace('slo = "ttft_p95<200ms"', ""))


@pytest.mark.parametrize("text", ["[" * 5000, f"a = {'[' * 5000}", "\0"])
@pytest.mark.parametrize("name", ["demand.toml", "demand.json"])
def test_a_file_that_is_nested_without_end_is_no_demand(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=f"a JSON or TOML file at .*{name}"):
        Demand.read(tmp_path / name)


def test_a_pipe_or_a_device_is_no_demand(tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    for path in (tmp_path / "pipe.toml", Path("/dev/zero")):
        with pytest.raises(ConfigError, match="is no file"):
            Demand.read(path)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("20", 20),
        (".5", 0.5),
        ("1e3", 1000),
        ("20/s", 20),
        ("300/min", 5),
        ("1_000_000/h", 1e6 / 3600),
        ("1e6/day", 1e6 / 86400),
        (7, 7.0),
    ],
)
def test_a_rate_has_a_unit_or_is_a_second(text, rate):
    assert parse_rate(text) == pytest.approx(rate)


@pytest.mark.parametrize(("arrivals", "variation"), [("poisson", 1.0), ("gamma", 4.0), ("constant", 0.0)])
def test_gaps_have_the_mean_and_the_variation_of_their_kind(arrivals, variation):
    demand = Demand(
        rate=5, prompt=ConstantLength(tokens=1), answer=ConstantLength(tokens=1), arrivals=arrivals, shape=0.25
    )
    gaps_s = demand.draw_gaps(np.random.default_rng(0), 200_000)
    assert gaps_s.mean() == pytest.approx(0.2, rel=0.02)
    assert gaps_s.var() / gaps_s.mean() ** 2 == pytest.approx(variation, rel=0.03, abs=1e-12)


@pytest.mark.parametrize(("arrivals", "variation"), [("poisson", 1.0), ("gamma", 1 + 3 / 4), ("constant", 3 / 4)])
def test_the_share_of_one_of_four_replicas_is_the_stream_thinned_by_chance(arrivals, variation):
    # Of a sum of K gaps, K geometric with p = 1/n: c² = (c²_gap − 1) / n + 1
    demand = Demand(
        rate=20, prompt=ConstantLength(tokens=1), answer=ConstantLength(tokens=1), arrivals=arrivals, shape=0.25
    )
    gaps_s = demand.draw_gaps(np.random.default_rng(0), 200_000, replicas=4)
    assert gaps_s.mean() == pytest.approx(0.2, rel=0.02)
    assert gaps_s.var() / gaps_s.mean() ** 2 == pytest.approx(variation, rel=0.03)


@pytest.mark.parametrize(
    "lengths",
    [
        ConstantLength(tokens=7),
        UniformLengths(least=3, most=9),
        LognormalLengths(median=50, p95=200, most=900),
        ObservedLengths(values=(4, 4, 9)),
    ],
)
def test_lengths_are_drawn_within_their_bounds(lengths):
    drawn = lengths.draw(np.random.default_rng(0), 20_000)
    assert drawn.min() >= 1 and drawn.max() <= lengths.longest
    if isinstance(lengths, LognormalLengths):
        assert np.percentile(drawn, [50, 95]) == pytest.approx([50, 200], rel=0.05)
    if isinstance(lengths, ObservedLengths):
        assert (drawn == 4).mean() == pytest.approx(2 / 3, abs=0.02) and set(drawn) == {4, 9}
