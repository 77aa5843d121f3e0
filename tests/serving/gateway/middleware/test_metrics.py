"""Metrics as text: made once a second at most, as nobody else is answered meanwhile."""

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
    assert b'route="/v1/models",status="200"' in counted.text()
