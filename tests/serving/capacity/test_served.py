"""What a server adds lies between what was measured at the loads next to it."""

import numpy as np
import pytest

from attendant.errors import ConfigError
from serving.capacity.served import Additions, Served

LOADS = (
    Served(tokens_per_s=100.0, way_s=(0.001,), decode_factor=(1.0,)),
    Served(tokens_per_s=300.0, way_s=(0.003,), decode_factor=(2.0,)),
)


def mean(served, load, name):
    draws = Additions(served, load).draws(name, 0)
    return np.mean([draws() for _ in range(20_000)])


@pytest.mark.parametrize(("load", "way_s"), [(1, 0.001), (100, 0.001), (150, 0.0015), (250, 0.0025), (9e9, 0.003)])
def test_a_load_between_two_draws_from_both(load, way_s):
    assert mean(LOADS, load, "way_s") == pytest.approx(way_s, rel=0.03)


def test_without_a_server_nothing_is_added():
    assert mean((), 100.0, "way_s") == 0.0 and mean((), 100.0, "decode_factor") == 1.0


@pytest.mark.parametrize("series", [(), (0.1, -0.1), (float("nan"),)])
def test_a_series_of_nothing_or_below_zero_is_refused(series):
    with pytest.raises(ConfigError, match="response_s of values of at least 0"):
        Served(response_s=series)
