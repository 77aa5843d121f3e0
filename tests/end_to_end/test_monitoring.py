"""A real Prometheus that reads deploy/prometheus scrapes a real server and its gateway under load."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from urllib.parse import urlsplit

import httpx

from tests.conftest import LANGUAGE_MODEL, NARROW_LENGTH
from tests.end_to_end.asking import PATIENCE_S
from tests.end_to_end.gateways import started
from tests.prometheus import scraping
from tests.test_monitoring import expressions
from tests.text_checkpoints import PROMPT


@contextmanager
def asked(gateway):
    """While requests are under way, one after another: some are drafted, some end too late, some are mistakes."""
    ended = Event()
    drafted = {"model": LANGUAGE_MODEL, "prompt": 4 * PROMPT, "max_tokens": 64, "num_speculative_tokens": 4}
    late = {"model": LANGUAGE_MODEL, "prompt": PROMPT, "max_tokens": NARROW_LENGTH - 96, "deadline_ms": 3000}
    whole = {"temperature": 0, "ignore_eos": True}

    def ask():
        with httpx.Client(base_url=f"{gateway.url}/v1", timeout=PATIENCE_S) as client:
            while not ended.is_set():
                assert client.post("/completions", json=drafted | whole).status_code == 200
                answer = client.post("/completions", json=late | whole | {"stream": True})
                assert answer.status_code == 200 and "deadline_exceeded" in answer.text
                assert client.post("/completions", json=drafted | {"model": "nobody"}).status_code == 404

    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask)
        try:
            yield
        finally:
            ended.set()
            asking.result(PATIENCE_S)


def test_every_panel_has_something_to_show_and_no_alert_is_raised(narrow, tmp_path):
    with started(narrow.grpc) as gateway:
        targets = {"triton": narrow.metrics, "gateway": urlsplit(gateway.url).netloc}
        with scraping(tmp_path, targets) as query, asked(gateway):
            ends, missing = time.monotonic() + PATIENCE_S, expressions()
            while missing and time.monotonic() < ends:
                time.sleep(1.0)
                missing = [(title, expression) for title, expression in missing if not query(expression)]
            assert not missing
            assert query('ALERTS{alertstate="firing"}') == []
