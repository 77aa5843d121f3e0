"""Ctrl-C while the quickstart works, at moments that what it prints tells: it ends, and nothing is left of it."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import pytest

from commands.quickstart.showcase import showcases
from tests.conftest import DIGITS, ROOT

END_S = 30
"""Longest wait for an end that takes some tenths of a second where nothing else runs."""
TRACES = ("Traceback", "Interrupt", "Exception", "rror:", "Warning")
FIRST = [
    pytest.param("1/5 ", os.kill, id="torch is imported"),
    pytest.param("export digits-vit 1/2 ", os.killpg, id="a graph is exported", marks=pytest.mark.slow),
]
SERVED = [
    pytest.param("2/5 ", os.killpg, id="Triton starts"),
    pytest.param("→ 3 ", os.kill, id="Triton drains"),
]
LATER = [
    pytest.param("export dates-transformer 1/", os.killpg, id="a later graph is exported"),
    pytest.param("4/5 ", os.killpg, id="Triton starts again"),
    pytest.param("dates-gru over gRPC 6/60 ", os.kill, id="answers over gRPC"),
]


@pytest.fixture
def temporary():
    """Where temporary files go; at a short path, as that of a socket lies below."""
    with tempfile.TemporaryDirectory(prefix="q-") as folder:
        yield Path(folder)


@contextlib.contextmanager
def quickstart(place, temporary):
    """One that runs, and what each process of it has in its environment."""
    identity = f"ATTENDANT_TESTED_AS={uuid.uuid4()}"
    environment = dict([*os.environ.items(), identity.split("=")])  # noqa: TID251
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "commands.quickstart",
            "--build",
            str(place / "build"),
            "--repository",
            str(place / "repository"),
            "--texts=60",
        ],
        cwd=ROOT,
        env={**environment, "TMPDIR": str(temporary), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process, identity
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()


def processes(identity):
    """Those that live, in whatever session."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if identity.encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.add(int(entry.name))
    return found


def shared_memory(pids):
    """The files in /dev/shm that any of these processes has mapped: regions of servers, semaphores."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
            found |= {Path(line.split()[5]) for line in lines if " /dev/shm/" in line}
    return {path for path in found if path.exists()}


def read_until(process, beginning):
    """The lines up to one that begins so."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith(beginning):
            return lines
    pytest.fail(f"it ended before {beginning!r}: {''.join(lines)}")


def await_shared_memory(process, identity):
    """Return when a server has begun to start its models."""
    while not any(path.name.startswith("attendant_") for path in shared_memory(processes(identity))):
        assert process.poll() is None
        time.sleep(0.02)


def require_an_end_without_a_trace(moment, interrupt, place, temporary):
    with quickstart(place, temporary) as (process, identity):
        lines = read_until(process, moment)
        if moment in ("2/5 ", "4/5 "):
            await_shared_memory(process, identity)
        pids = processes(identity)
        shared = shared_memory(pids)
        assert len(pids) >= 2
        interrupt(process.pid, signal.SIGINT)
        rest, _ = process.communicate(timeout=END_S)
        assert processes(identity) == set()
    printed = "".join(lines) + rest
    assert process.returncode == 130, printed
    assert [word for word in TRACES if word in printed] == [], printed
    assert [path for path in shared if path.exists()] == []
    assert list(temporary.iterdir()) == []
    beside = [*place.iterdir(), *(place / "build").glob("*")]
    assert [path.name for path in beside if path.name.startswith(".")] == []


@pytest.mark.parametrize(("moment", "interrupt"), FIRST)
def test_an_interruption_of_the_first_export_leaves_nothing(moment, interrupt, tmp_path, temporary):
    require_an_end_without_a_trace(moment, interrupt, tmp_path, temporary)


@pytest.mark.parametrize(("moment", "interrupt"), SERVED)
def test_an_interruption_of_the_first_server_leaves_nothing(moment, interrupt, explained_digits, tmp_path, temporary):
    shutil.copytree(explained_digits, tmp_path / "build" / DIGITS)
    require_an_end_without_a_trace(moment, interrupt, tmp_path, temporary)


@pytest.mark.slow
@pytest.mark.parametrize(("moment", "interrupt"), LATER)
def test_an_interruption_of_the_proofs_leaves_nothing(moment, interrupt, exported, tmp_path, temporary):
    for showcase in showcases(texts=1):
        if not moment.startswith(f"export {showcase.name}"):
            artefact = exported(showcase.name, explain=True)
            shutil.copytree(artefact, tmp_path / "build" / showcase.name)
    require_an_end_without_a_trace(moment, interrupt, tmp_path, temporary)
