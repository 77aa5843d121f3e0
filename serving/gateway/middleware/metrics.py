"""Prometheus metrics; labels are routes, statuses, servers and models, of which there are few."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.responses import Response

from serving.gateway.answers import Tally
from serving.gateway.upstream.pool import Pool

PREFIX = "attendant_gateway"
SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300)
router = APIRouter(tags=["operation"])


class Metrics:
    """The metrics of one gateway.

    Attributes:
        registry: that holds them.
        open: requests under way.
    """

    def __init__(self) -> None:
        kept = self.registry = CollectorRegistry()
        self.open = Gauge(f"{PREFIX}_open_requests", "Requests under way.", registry=kept)
        self._requests = Counter(
            f"{PREFIX}_requests", "Requests by what became of them.", ("route", "status"), registry=kept
        )
        self._seconds = _seconds("request", "From a request to the end of its response.", kept)
        self._first = _seconds("time_to_first_token", "From a request to its first token.", kept)
        self._tokens = Counter(
            f"{PREFIX}_tokens", "Tokens of questions, where counted, and of answers.", ("of",), registry=kept
        )

    def note(self, route: str, status: int, seconds: float, tally: Tally | None, began_s: float) -> None:
        """Count a request that is over.

        Args:
            route: its pattern.
            status: of the response.
            seconds: how long it took.
            tally: of its tokens, if it has any.
            began_s: when it began, by ``time.perf_counter``.
        """
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)
        if tally is None:
            return
        self._tokens.labels("prompt").inc(tally.prompt)
        self._tokens.labels("completion").inc(tally.completion)
        if tally.first_s is not None:
            self._first.labels(route).observe(tally.first_s - began_s)


class Upstreams(Collector):
    """The state of the servers when it is asked for."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def collect(self) -> Iterator[Metric]:
        """Two families of gauges."""
        busy = GaugeMetricFamily(f"{PREFIX}_upstream_in_flight", "Requests under way at a server.", labels=["upstream"])
        out = GaugeMetricFamily(f"{PREFIX}_upstream_out", "Whether a model is left out.", labels=["upstream", "model"])
        for upstream in self._pool.upstreams:
            busy.add_metric([upstream.address], upstream.in_flight)
            for name in upstream.models:
                out.add_metric([upstream.address, name], float(upstream.is_out(name)))
        yield busy
        yield out


@router.get("/metrics", response_model=None, responses={200: {"content": {"text/plain": {}}}})
async def metrics(request: Request) -> Response:
    """Metrics for Prometheus."""
    kept: Metrics = request.app.state.metrics
    return Response(generate_latest(kept.registry), media_type=CONTENT_TYPE_LATEST)


def _seconds(name: str, meaning: str, registry: CollectorRegistry) -> Histogram:
    return Histogram(f"{PREFIX}_{name}_seconds", meaning, ("route",), buckets=SECONDS, registry=registry)
