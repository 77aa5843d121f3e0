import os
import signal
import subprocess
import sys

import pytest

from tests.end_to_end.asking import PATIENCE_S

SCRIPT = """
import asyncio, sys, time
from serving.interrupts import heed_signals, ignore_signals, run_until_interrupted

async def work():
    print("works", flush=True)
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        try:
            print("first", flush=True)
            time.sleep(60)  # as a server is waited for
        except KeyboardInterrupt:
            print("second", flush=True)
        raise

heed_signals()
try:
    run_until_interrupted(work())
except KeyboardInterrupt:
    ignore_signals()
    print("ended", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def process(request):
    def ignore():
        for number in request.param:
            signal.signal(number, signal.SIG_IGN)

    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=ignore,
    ) as started:
        yield started
        started.kill()


@pytest.mark.planted
@pytest.mark.parametrize("process", [[], [signal.SIGINT], [signal.SIGINT, signal.SIGHUP]], indirect=True)
def test_a_second_signal_breaks_off_what_the_first_ended_also_where_ctrl_c_is_ignored(process, request):
    ignored = request.node.callspec.params["process"]
    assert process.stdout.readline() == "works\n"
    for number in ignored:
        os.kill(process.pid, number)
    os.kill(process.pid, signal.SIGTERM)
    assert process.stdout.readline() == "first\n"
    os.kill(process.pid, signal.SIGTERM if signal.SIGHUP in ignored else signal.SIGHUP)
    assert process.stdout.readline() == "second\n"
    assert process.stdout.readline() == "ended\n"
    os.kill(process.pid, signal.SIGTERM)
    _, errors = process.communicate("go on\n", timeout=PATIENCE_S)
    assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize("process", [[]], indirect=True)
def test_ctrl_c_does_so_where_it_is_not_ignored(process):
    assert process.stdout.readline() == "works\n"
    for ending in ("first", "second", "ended"):
        if ending != "ended":
            os.kill(process.pid, signal.SIGINT)
        assert process.stdout.readline() == f"{ending}\n"
    _, errors = process.communicate("go on\n", timeout=PATIENCE_S)
    assert (process.returncode, errors) == (0, "")
