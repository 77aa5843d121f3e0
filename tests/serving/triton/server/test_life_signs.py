"""Who computes for a model, and for whom silence is a fault."""

import subprocess
import sys
import time

import pytest

from serving.processes import process_of
from serving.triton.server import life_signs
from serving.triton.server.life_signs import LOADERS, TICK_S, Absence, LifeSigns, ServerPulse
from serving.triton.server.workers import Worker, engines_of

WORKER = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=subprocess.PIPE)
print(child.pid, flush=True)
input()
child.kill()
"""
BUSY, IDLE = "while True: pass", "input()"


@pytest.mark.parametrize(("engine", "hangs"), [(BUSY, False), (IDLE, True)])
def test_a_worker_whose_engine_computes_is_at_work(monkeypatch, engine, hangs):
    monkeypatch.setattr(life_signs, "HANG_S", 1.5)
    command = [sys.executable, "-c", WORKER, engine]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        record, child = process_of(process.pid), int(process.stdout.readline())
        worker = Worker(pid=record.pid, started=record.started, model="m", region="")
        assert [one.pid for one in engines_of([worker])] == [child]
        signs = LifeSigns([worker], ServerPulse())
        signs.is_asked = True
        until_s = time.monotonic() + (6.0 if engine == BUSY else 60.0)
        signs._pulse.answered_s = until_s  # the server answers all the while
        while time.monotonic() < until_s and not signs.hang:
            began_s = time.monotonic()
            time.sleep(signs.tick_s)
            signs.look(time.monotonic() - began_s)
        assert signs.hang == hangs
        process.communicate("\n", timeout=60)


class Unscheduled(Worker):
    """A worker that has used no processor: how long it waited for one is what the test says."""

    processor_s = 0.0
    lives, is_stopped = True, False
    waited_s = 0.0


@pytest.mark.parametrize(("waits", "hangs"), [(0.95, False), (0.2, True)])
def test_a_worker_that_waits_for_a_processor_does_not_hang(monkeypatch, waits, hangs):
    worker = Unscheduled(pid=2**22 + 1, started=1, model="m", region="")
    signs = LifeSigns([worker], ServerPulse())
    signs.is_asked = True
    for _ in range(60):
        signs._pulse.answered_s = time.monotonic()
        monkeypatch.setattr(Unscheduled, "waited_s", worker.waited_s + waits * signs.tick_s)
        signs.look(signs.tick_s)
    assert signs.hang == hangs


@pytest.mark.parametrize(("waits", "shortest_s", "longest_s"), [(0.0, 4.0, 5.0), (0.95, 38.0, 45.0)])
def test_a_server_that_waits_for_a_processor_has_longer_to_start_a_worker(monkeypatch, waits, shortest_s, longest_s):
    server, now_s = Unscheduled(pid=2**22 + 1, started=1, model="", region=""), 100.0
    monkeypatch.setattr(life_signs.time, "monotonic", lambda: now_s)
    absence = Absence(server, "m", ServerPulse())
    absence.look(True)
    while not absence.is_long:
        now_s += TICK_S
        monkeypatch.setattr(Unscheduled, "waited_s", server.waited_s + waits * TICK_S)
        absence.look(False)
        assert now_s < 100.0 + longest_s
    assert now_s > 100.0 + shortest_s
    absence.look(True)
    assert not absence.is_long


def test_a_model_that_waits_for_others_to_be_loaded_is_not_missed(monkeypatch):
    now_s, pulse = 100.0, ServerPulse()
    pulse.loading |= {f"other {number}" for number in range(LOADERS)}
    monkeypatch.setattr(life_signs.time, "monotonic", lambda: now_s)
    waiting = Absence(None, "m", pulse)
    for _ in range(100):
        now_s += TICK_S
        waiting.look(False)
    assert not waiting.is_long
    Absence(None, "other 0", pulse).look(False)  # whose worker has died: there is a loader for the next
    for _ in range(30):
        now_s += TICK_S
        waiting.look(False)
    assert waiting.is_long
    waiting.look(True)
    assert "m" in pulse.loading
    waiting.end()
    assert "m" not in pulse.loading and not waiting.is_long
