from __future__ import annotations

import socket

import pytest

from attendant.errors import ConfigError
from serving.triton.server.ports import check_ports_free
from serving.triton.server.settings import ServerSettings


@pytest.mark.parametrize("name", ["http", "grpc", "metrics"])
def test_a_taken_port_is_named_with_the_option_that_changes_it(settings: ServerSettings, name: str):
    port = settings.ports[name]
    told = pytest.raises(ConfigError, match=f"port {port}: Address already in use.*--{name}-port")
    with socket.create_server(("127.0.0.1", port)), told:
        check_ports_free(settings)


def test_free_ports_are_accepted_and_stay_free(settings: ServerSettings):
    check_ports_free(settings)
    check_ports_free(settings)
