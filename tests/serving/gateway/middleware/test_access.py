import pytest
from fastapi.testclient import TestClient

from serving.gateway.app import create_app
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
