from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from attendant.errors import ConfigError
from serving.triton.server.endpoints import Endpoints
from serving.triton.server.settings import ServerSettings


def test_the_default_server_listens_on_loopback_alone():
    endpoints = ServerSettings(repository=Path("models")).endpoints
    assert endpoints == Endpoints(http="", grpc="127.0.0.1:8001", metrics="127.0.0.1:8002")


def test_a_server_on_every_interface_is_asked_by_loopback():
    assert ServerSettings(repository=Path("models"), address="0.0.0.0").endpoints.grpc == "127.0.0.1:8001"


def test_a_server_on_one_address_is_asked_there():
    assert ServerSettings(repository=Path("models"), address="127.0.0.2").endpoints.grpc == "127.0.0.2:8001"


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        ({"http_port": -1}, "http_port from 1 to 65535"),
        ({"metrics_port": 65536}, "metrics_port from 1 to 65535"),
        ({"grpc_port": 8002}, "different ports"),
        ({"address": "localhost"}, "an IPv4 address"),
        ({"drain_timeout_s": 0}, "drain_timeout_s of at least 1"),
        ({"shm_default_bytes": 1000}, "shm_default_bytes of at least 1048576"),
        ({"shm_growth_bytes": 0}, "shm_growth_bytes of at least 1"),
        ({"models": ("a", "*")}, "names of models"),
    ],
)
def test_a_setting_no_server_can_have_is_refused_with_what_was_expected(choice: dict[str, Any], told: str):
    with pytest.raises(ConfigError, match=told):
        ServerSettings(repository=Path("models"), **choice)
