"""What is said of processes where no file can be opened: nothing that would end them."""

import math
import os
import resource
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager

from serving.processes import AT_WORK, STARVED, WorkMeter, process_of


@contextmanager
def without_descriptors():
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    os.close(lowest := os.dup(0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, hard))


def test_a_process_of_which_nothing_can_be_read_is_not_taken_for_dead_stopped_or_idle():
    own, meter = process_of(os.getpid()), WorkMeter()
    meter.share([own], 1.0)
    with without_descriptors():
        lives, is_stopped, worked_s, share = own.lives, own.is_stopped, own.processor_s, meter.share([own], 1.0)
    assert lives and not is_stopped and math.isnan(worked_s) and share > AT_WORK
    assert 0 <= meter.share([own], 1.0) < 60, "it goes on where it was"


def test_one_that_waits_for_a_processor_would_work_and_one_that_sleeps_would_not():
    with ExitStack() as stack:
        crowd = [stack.enter_context(pinned("while True: pass")) for _ in range(12)]
        busy, asleep = process_of(crowd[0].pid), process_of(stack.enter_context(pinned("input()")).pid)
        of_busy, of_asleep = WorkMeter(), WorkMeter()
        assert of_busy.waiting_share([busy], 1.0) == 1.0, "it waits just now, which the kernel has not counted"
        of_asleep.waiting_share([asleep], 1.0)
        waited, slept = 0.0, 1.0
        deadline_s = time.monotonic() + 60
        while not waited > STARVED > AT_WORK > slept and time.monotonic() < deadline_s:
            time.sleep(
                2.0
            )  # each of twelve has a twelfth of a processor, at most, and the sleeper has to start with it
            waited, slept = of_busy.waiting_share([busy], 2.0), of_asleep.waiting_share([asleep], 2.0)
        assert waited > STARVED > AT_WORK > slept
    assert process_of(os.getpid()).waited_s > 0 and busy.waited_s == 0 and not busy.is_runnable


@contextmanager
def pinned(code):
    """A process on the first processor that we may use."""
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as process:
        os.sched_setaffinity(process.pid, {min(os.sched_getaffinity(0))})
        try:
            yield process
        finally:
            process.kill()


def test_one_that_has_ended_is_dead():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        record = process_of(process.pid)
        assert record.lives
        process.communicate(b"\n")
    assert not record.lives and record.processor_s == 0.0
