"""What is said of processes where no file can be opened: nothing that would end them."""

import math
import os
import resource
import subprocess
import sys
from contextlib import contextmanager

from serving.processes import AT_WORK, WorkMeter, process_of


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


def test_one_that_has_ended_is_dead():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        record = process_of(process.pid)
        assert record.lives
        process.communicate(b"\n")
    assert not record.lives and record.processor_s == 0.0
