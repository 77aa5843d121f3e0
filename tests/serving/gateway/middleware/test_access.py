import pytest
from fastapi.testclient import TestClient

from serving.gateway.app import create_app
from serving.gateway.middleware.keys import new_key
from serving.gateway.settings import GatewaySettings


@pytest.mark.planted
@pytest.mark.parametrize(
    ("length", "status"),
    [
        ("0", 200),
        ("0000000000000", 200),
        ("00000000000009", 200),
        ("99999999999", 413),
        ("00099999999999", 413),
        ("", 413),
    ],
)
def test_the_length_of_a_body_is_a_number_however_it_is_written(length, status):
    client = TestClient(create_app(GatewaySettings()), base_url="http://127.0.0.1")
    assert client.get("/livez", headers={"Content-Length": length}).status_code == status


@pytest.mark.planted
def test_every_route_that_asks_for_a_key_counts_but_those_of_who_runs_it(tmp_path):
    secret = new_key(tmp_path / "keys.json", "ann", requests="2/hour")
    client = TestClient(create_app(GatewaySettings(keys=tmp_path / "keys.json")), base_url="http://127.0.0.1")
    client.headers["Authorization"] = f"Bearer {secret}"
    assert [client.get("/metrics").status_code for _ in range(4)] == [200] * 4
    statuses = [client.get(path).status_code for path in ("/openapi.json", "/nothing", "/openapi.json", "/v1/models")]
    assert statuses == [200, 404, 429, 429]
    assert [client.get(path).status_code for path in ("/metrics", "/livez", "/docs")] == [200] * 3
