"""Work in a process of its own, which a signal ends with all that it has started, wherever that is."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DEADLINE_S = 30
SCRIPT = """
import subprocess, sys, tempfile, time
from pathlib import Path
from attendant.cli import run
from commands.quickstart.supervisor import supervise

def work():
    BODY

def clean_up():
    print("cleaned up", flush=True)

run("prog", "A test.", {"run": lambda: supervise(work, clean_up)}, ["run"])
"""
IN_A_SESSION_OF_ITS_OWN = """
    sleeper = 'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)'
    starter = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {sleeper!r}]).pid, flush=True)"
    child = subprocess.Popen([sys.executable, '-c', starter + "; import time; time.sleep(600)"], start_new_session=True)
    Path(tempfile.gettempdir(), "half").write_text("half")
    print(child.pid, flush=True)
    time.sleep(600)
"""


def started(body, temporary):
    script = SCRIPT.replace("    BODY", body.strip("\n"))
    return subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(temporary)},  # noqa: TID251
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def ended(process):
    out, errors = process.communicate(timeout=DEADLINE_S)
    return process.returncode, out, errors


def await_end(pid):
    """Return when a process that is not ours has ended."""
    deadline = time.monotonic() + DEADLINE_S
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("status", [0, 3])
def test_work_that_ends_by_itself_gives_its_status(status, tmp_path):
    assert ended(started(f"    return {status}", tmp_path)) == (status, "", "")


def test_work_that_succeeds_leaves_no_temporary_file(tmp_path):
    assert ended(started("    Path(tempfile.gettempdir(), 'cache').mkdir()\n    return 0", tmp_path))[0] == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("receiver", ["parent", "group"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_everything_that_the_work_has_started(receiver, number, tmp_path):
    process = started(IN_A_SESSION_OF_ITS_OWN, tmp_path)
    pids = [int(process.stdout.readline()) for _ in range(2)]
    (os.kill if receiver == "parent" else os.killpg)(process.pid, number)
    assert ended(process) == (128 + number, "cleaned up\n", "")
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
    assert list(tmp_path.iterdir()) == []


def test_what_a_quickstart_that_was_killed_left_goes_at_the_start_of_the_next(tmp_path):
    first = started("    Path(tempfile.gettempdir(), 'left').touch()\n    time.sleep(600)", tmp_path)
    until = time.monotonic() + DEADLINE_S
    while not list(tmp_path.glob("*/left")) and time.monotonic() < until:
        time.sleep(0.05)
    first.kill()
    first.communicate()
    assert ended(started("    return 0", tmp_path))[0] == 0
    assert list(tmp_path.iterdir()) == []


def test_work_that_something_else_kills_is_an_error_and_cleaned_up(tmp_path):
    status, out, errors = ended(started("    import os; os.kill(os.getpid(), 9)", tmp_path))
    assert (status, out) == (1, "cleaned up\n")
    assert errors.count("\n") == 1 and "signal 9" in errors


def test_what_failing_work_has_written_for_its_reader_stays(tmp_path):
    assert ended(started("    Path(tempfile.gettempdir(), 'log').write_text('why')\n    return 1", tmp_path))[0] == 1
    assert [path.name for path in tmp_path.glob("attendant_*/*")] == ["log"]


def test_work_does_not_outlive_a_parent_that_is_killed(tmp_path):
    process = started("    import os; print(os.getpid(), flush=True)\n    time.sleep(600)", tmp_path)
    worker = int(process.stdout.readline())
    process.kill()
    process.wait()
    await_end(worker)
    process.communicate()
