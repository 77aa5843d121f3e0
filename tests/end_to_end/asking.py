"""Ask a running server in a test: by the clients, over HTTP, by a command, and what it counted."""

import asyncio
import json
import subprocess
import sys
import time
import urllib.request

from clients.triton_client import TritonClient
from tests.conftest import LANGUAGE_MODEL

PATIENCE_S = 60.0  # with what must come: a busy machine is slow, and how slow is no claim of a test


def ask(server, question, timeout_s=PATIENCE_S):
    """``question(client)`` is a coroutine; its result."""

    async def asked():
        async with TritonClient(server.grpc, timeout_s) as client:
            return await question(client)

    return asyncio.run(asked())


def python_m(*words, text=None, timeout=4 * PATIENCE_S):
    """``python -m`` with these words, standard input ``text``."""
    command = [sys.executable, "-m", *map(str, words)]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=timeout)


def post(server, path, body):
    """The answer of a model's HTTP endpoint, ``path`` behind ``v2/models/``, to a JSON body."""
    url = f"http://{server.http}/v2/models/{path}"
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:  # noqa: S310
        return answer.read().decode()


def page(url):
    """A text, fetched without what httpx does anew for each: who waits for a text to change fetches it often."""
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:  # noqa: S310
        return answer.read().decode()


async def until(condition, seconds=PATIENCE_S):
    """Whether a condition came true."""
    ends = time.monotonic() + seconds
    while not await asyncio.to_thread(condition):  # others of this loop go on while a page is fetched
        if time.monotonic() > ends:
            return False
        await asyncio.sleep(0.05)
    return True


def active(server):
    """How many sequences the language model decodes."""
    return counted(server, LANGUAGE_MODEL, "attendant_num_requests_running")


def counted(server, model, metric):
    """What one of Triton's counters stands at for a model; of requests that ended, ``metric{reason}``."""
    name, _, reason = metric.rstrip("}").partition("{")
    lines = [line for line in page(f"http://{server.metrics}/metrics").splitlines() if line.startswith(name + "{")]
    return sum(
        float(line.split()[-1]) for line in lines if f'"{model}"' in line and (f'"{reason}"' in line or not reason)
    )


def settled(server, model, metric, still_s=0.5):
    """What a counter stands at once it has stood still for so long: Triton counts a request behind its answer."""
    now = counted(server, model, metric)
    ends = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends:
        before = now
        time.sleep(still_s)
        now = counted(server, model, metric)
        if now == before:
            return now
    raise AssertionError(f"{metric} of {model} still grows, to {now:g}: somebody else asks")


def inferences_since(server, model, before, expected):
    """How many inferences a model made since a count, and in how many runs.

    Triton counts a request behind its answer, so the count may come later; what is expected is waited for.
    """
    ends = time.monotonic() + PATIENCE_S
    while True:
        found = [now - was for now, was in zip(inferences(server, model), before, strict=True)]
        if found[0] >= expected or time.monotonic() > ends:
            return found
        time.sleep(0.05)


def gathered(server, model, burst, expected, bursts=10):
    """Whether Triton's batcher ran requests of a burst together.

    It gathers what waits while a batch runs: on a busy machine requests may come one by one, so a burst is repeated.
    """
    for _ in range(bursts):
        before = inferences(server, model)
        burst()
        asked, runs = inferences_since(server, model, before, expected)
        assert asked >= expected, "with what came just before, which Triton may count late"
        if runs < asked:
            return True
    return False


def inferences(server, model):
    """How many inferences a model has made, and in how many runs."""
    return [counted(server, model, metric) for metric in ("nv_inference_count", "nv_inference_exec_count")]
