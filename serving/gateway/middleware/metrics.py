"""Prometheus metrics; labels are routes, statuses, servers and models, of which there are few."""

import time
from collections.abc import Callable, Iterator
from importlib.metadata import version

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.responses import Response

from serving.gateway.answers import TokenUsage
from serving.gateway.upstream.pool import Pool

PREFIX = "attendant_gateway"
FRESH_S = 1.0
"""How long a text of the metrics is as good as a new one: it takes 10 ms, in which nobody else is answered."""
SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300)
router = APIRouter(tags=["operation"])


class Metrics:
    """The metrics of one gateway.

    Attributes:
        registry: that holds them.
        open: requests under way.
        keys_current: whether the file of keys could be read since it changed.
        serves: whether a name is a model's: any other is no label, of which clients could send without end.
    """

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self.serves: Callable[[str], bool] = lambda _: False
        build = Gauge(f"{PREFIX}_build_info", "1, with the gateway's version.", ("version",), registry=registry)
        build.labels(version("attendant")).set(1)
        self.open = Gauge(f"{PREFIX}_open_requests", "Requests under way.", registry=registry)
        self.keys_current = Gauge(
            f"{PREFIX}_keys_current", "1, or 0 where the changed file of keys cannot be read.", registry=registry
        )
        self._requests = Counter(
            f"{PREFIX}_requests", "Requests by what became of them.", ("route", "model", "status"), registry=registry
        )
        self._seconds = _seconds("request", "From a request to the end of its response.", registry)
        self._first = _seconds("time_to_first_token", "From a request to its first token.", registry)
        self._text, self._text_s = b"", float("-inf")
        self._tokens = Counter(
            f"{PREFIX}_tokens", "Tokens of prompts, where counted, and of answers.", ("model", "of"), registry=registry
        )
        self._stream_errors = Counter(
            f"{PREFIX}_stream_errors",
            "Streams that began with status 200 and ended with an error, by its code.",
            ("route", "model", "code"),
            registry=registry,
        )

    def text(self) -> bytes:
        """All of them in Prometheus's format, no older than :data:`FRESH_S`."""
        if time.monotonic() - self._text_s > FRESH_S:
            self._text, self._text_s = generate_latest(self.registry), time.monotonic()
        return self._text

    def record(
        self,
        route: str,
        status: int,
        seconds: float,
        usage: TokenUsage | None,
        began_s: float,
        stream_error: str = "",
    ) -> None:
        """Count a request that is over.

        Args:
            route: its pattern.
            status: of the response.
            seconds: how long it took.
            usage: of its tokens, if it has any.
            began_s: when it began, by ``time.perf_counter``.
            stream_error: code of the error with which its stream ended, if it did.
        """
        model = usage.model if usage is not None and self.serves(usage.model) else ""
        self._requests.labels(route, model, str(status)).inc()
        self._seconds.labels(route, model).observe(seconds)
        if stream_error:
            self._stream_errors.labels(route, model, stream_error).inc()
        if usage is None:
            return
        self._tokens.labels(model, "prompt").inc(usage.prompt)
        self._tokens.labels(model, "completion").inc(usage.completion)
        if usage.first_s is not None:
            self._first.labels(route, model).observe(usage.first_s - began_s)


class Upstreams(Collector):
    """The state of the servers when it is requested."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def collect(self) -> Iterator[Metric]:
        """Two families of gauges."""
        busy = GaugeMetricFamily(f"{PREFIX}_upstream_in_flight", "Requests under way at a server.", labels=["upstream"])
        out = GaugeMetricFamily(
            f"{PREFIX}_upstream_ejected", "Whether a model is ejected.", labels=["upstream", "model"]
        )
        for upstream in self._pool.upstreams:
            busy.add_metric([upstream.address], upstream.in_flight)
            for name in upstream.models:
                out.add_metric([upstream.address, name], float(upstream.is_ejected(name)))
        yield busy
        yield out


@router.get("/metrics", response_model=None, responses={200: {"content": {"text/plain": {}}}})
async def metrics(request: Request) -> Response:
    """Metrics for Prometheus."""
    of_gateway: Metrics = request.app.state.metrics
    return Response(of_gateway.text(), media_type=CONTENT_TYPE_LATEST)


def _seconds(name: str, meaning: str, registry: CollectorRegistry) -> Histogram:
    return Histogram(f"{PREFIX}_{name}_seconds", meaning, ("route", "model"), buckets=SECONDS, registry=registry)
