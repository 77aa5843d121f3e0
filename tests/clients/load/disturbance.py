"""How long the generator and the server of known times wanted a processor and had none, as the kernel counted it.

    waited   seconds that threads of both processes were runnable and stood in line, and what a hypervisor stole

Source: Linux, Documentation/scheduler/sched-stats.rst (/proc/<pid>/task/<tid>/schedstat) and proc(5) (steal).
"""

import os
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

EVERY_S = 0.02
_STEAL = 8  # the word's place in the first line of /proc/stat


class Disturbance:
    """While it is entered, what was waited so far is noted all along."""

    def __init__(self):
        self._at_s, self._waited_s = [], []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="disturbance")
        self._pids = [os.getpid(), *_servers()]

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    def share(self, begins_s, ends_s):
        """Seconds waited a second between two times of the monotonic clock."""
        begun, ended = np.interp([begins_s, ends_s], self._at_s, self._waited_s)
        return float((ended - begun) / (ends_s - begins_s))

    def _look(self):
        while not self._over.wait(EVERY_S):
            self._at_s.append(time.monotonic())
            self._waited_s.append(sum(map(_waited_s, self._pids)) + _stolen_s())


def _servers():
    found = []
    for children in Path(f"/proc/{os.getpid()}/task").glob("*/children"):
        for pid in children.read_text().split():
            if b"known_server" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    assert len(found) == 1, "the fixture's"
    return found


def _waited_s(pid):
    total_ns = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            total_ns += int((task / "schedstat").read_text().split()[1])
    return total_ns / 1e9


def _stolen_s():
    line = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return int(line[_STEAL]) / os.sysconf("SC_CLK_TCK")
