from __future__ import annotations

import socket

import pytest

from attendant.errors import ConfigError
from serving.triton.server.endpoints import Endpoints
from serving.triton.server.ports import all_listen, check_ports_free, free_ports
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


@pytest.mark.parametrize("missing", ["http", "grpc", "metrics", ""])
def test_a_server_listens_once_each_of_its_ports_does(missing: str):
    with socket.create_server(("127.0.0.1", 0)) as server:
        names = dict.fromkeys(("http", "grpc", "metrics"), f"127.0.0.1:{server.getsockname()[1]}")
        if missing:
            (free,) = free_ports(1)
            names[missing] = f"127.0.0.1:{free}"
        assert all_listen(Endpoints(**names)) == (not missing)
        assert all_listen(Endpoints(**{**names, "http": ""})) == (missing in ("", "http"))
