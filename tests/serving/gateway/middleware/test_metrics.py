"""Metrics as text: made once a second at most, as nobody else is answered meanwhile."""

from importlib.metadata import version

from serving.gateway.answers import TokenUsage
from serving.gateway.middleware import metrics
from serving.gateway.middleware.metrics import Metrics


def test_a_text_is_made_anew_once_it_is_a_second_old(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(metrics.time, "monotonic", lambda: clock[0])
    counted = Metrics()
    first = counted.text()
    counted.record("/v1/models", 200, 0.1, None, 0.0)
    clock[0] += 0.9
    assert counted.text() is first and b"/v1/models" not in first
    clock[0] += 0.2
    assert b'model="",route="/v1/models",status="200"' in counted.text()


def test_a_name_that_no_server_has_is_no_label():
    counted = Metrics()
    counted.serves = {"mine"}.__contains__
    for number in range(100):
        counted.record("/v1/completions", 404, 0.1, TokenUsage(model=f"some-{number}"), 0.0)
    counted.record("/v1/completions", 200, 0.1, TokenUsage(model="mine", completion=3, first_s=0.5), 0.25, "late")
    text = counted.text().decode()
    assert "some-" not in text and 'attendant_gateway_tokens_total{model="mine",of="completion"} 3.0' in text
    assert 'attendant_gateway_requests_total{model="",route="/v1/completions",status="404"} 100.0' in text
    assert 'attendant_gateway_stream_errors_total{code="late",model="mine",route="/v1/completions"} 1.0' in text
    assert 'attendant_gateway_time_to_first_token_seconds_sum{model="mine",route="/v1/completions"} 0.25' in text


def test_the_build_says_its_version():
    assert f'attendant_gateway_build_info{{version="{version("attendant")}"}} 1.0' in Metrics().text().decode()
