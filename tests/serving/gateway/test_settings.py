import math

import pytest

from attendant.errors import ConfigError
from serving.gateway.settings import OTLP_ENDPOINT, GatewaySettings, otlp_endpoint


@pytest.mark.parametrize(
    ("wrong", "flag"),
    [
        ({"tritons": ("localhost",)}, "--server"),
        ({"tritons": ()}, "--server"),
        ({"timeout_s": 0.0}, "timeout_s"),
        ({"port": 70_000}, "port"),
        ({"tritons": ("localhost:1", "localhost:1")}, "--server"),
        *(({"request_timeout_s": odd}, "request_timeout_s") for odd in (1e-4, 2.2e6, math.inf, math.nan)),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_name(wrong, flag):
    with pytest.raises(ConfigError, match=flag):
        GatewaySettings(**wrong)


def test_where_traces_go_stands_in_the_environment(monkeypatch):
    monkeypatch.delenv(OTLP_ENDPOINT, raising=False)
    assert otlp_endpoint() == ""
    monkeypatch.setenv(OTLP_ENDPOINT, "http://collector:4318")
    assert otlp_endpoint() == "http://collector:4318"
