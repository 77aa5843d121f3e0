import errno
import io
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tqdm import tqdm

from attendant.errors import ConfigError, ExportError
from export.artefact.own_process import run_each
from serving.triton.server.shared_memory import is_orphan
from tests.conftest import ROOT


def write_pid(path):
    path.write_text(str(os.getpid()))


def refuse(path):
    raise ConfigError("something else", "this", "change it")


def fail(path):
    raise LookupError("no such operator")


def sleep_long(path):
    path.write_text(str(os.getpid()))
    time.sleep(600)


def share_a_lock(path):
    if path.name == "refuses":
        while not path.with_name("shares").exists():
            time.sleep(0.05)
        refuse(path)
    lock = multiprocessing.RLock()
    with lock:
        sleep_long(path)


def trace_with_a_bar(path):
    list(tqdm([1], file=io.StringIO()))
    path.write_text(Path("/proc/self/maps").read_text())


def no_room(path):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def die(path):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("length", [10, 200])
def test_what_is_left_of_a_killed_export_is_called_as_what_the_next_start_of_a_server_removes(length):
    code = (
        "from export.artefact.own_process import *; from export.artefact.own_process import _folder; "
        "start_importing(); print(_folder().name, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    with TemporaryDirectory(prefix="t" * length, dir="/tmp") as place:
        killed = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env={"TMPDIR": place}, capture_output=True, text=True, check=False
        )
        left = Path(killed.stdout.strip())
        assert killed.returncode == -signal.SIGKILL and left.is_dir() and is_orphan(left.name)
        assert (left.parent == Path(place)) == (length < 100)
        shutil.rmtree(left)


def test_each_call_runs_in_a_process_of_its_own(tmp_path):
    done = set(run_each(write_pid, {name: (tmp_path / name,) for name in ("a", "b")}))
    pids = {(tmp_path / name).read_text() for name in ("a", "b")}
    assert done == {"a", "b"}
    assert len(pids | {str(os.getpid())}) == 3


def test_an_error_comes_across_as_it_was_raised(tmp_path):
    with pytest.raises(ConfigError, match="found this; change it"):
        list(run_each(refuse, {"a": (tmp_path,)}))


def test_an_error_of_another_library_is_told_by_name(tmp_path):
    with pytest.raises(ExportError, match="LookupError: no such operator"):
        list(run_each(fail, {"a": (tmp_path,)}))


def test_a_process_that_dies_is_an_error_that_says_how(tmp_path):
    with pytest.raises(ExportError, match="'a' to report; found it ended with -9"):
        list(run_each(die, {"a": (tmp_path,)}))


def test_a_full_disk_comes_across_as_such(tmp_path):
    with pytest.raises(OSError, match="No space left on device"):
        list(run_each(no_room, {"a": (tmp_path,)}))


def test_a_bar_that_torch_asks_for_shares_no_semaphore(tmp_path):
    list(run_each(trace_with_a_bar, {"a": (tmp_path / "maps",)}))
    assert "/dev/shm/sem" not in (tmp_path / "maps").read_text()  # noqa: S108


def note_what_is_read(path):
    from export.graph.onnx_graph import read_translations

    path.write_text(f"{sys.modules['export'].__file__} {read_translations.cache_info().currsize}")


READERS = "from pathlib import Path; Path(__file__).with_name('ran').touch()"


def test_a_process_has_torchs_translations_read_by_our_modules_and_not_by_a_readers_of_their_name(tmp_path):
    (tmp_path / "export").mkdir()
    (tmp_path / "export/__init__.py").write_text(READERS)
    (tmp_path / "program").mkdir()
    (tmp_path / "program/reads.py").write_text(READS)
    command = [sys.executable, "program/reads.py", tmp_path / "read"]
    subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, check=True)
    assert (tmp_path / "read").read_text() == f"{ROOT / 'export/__init__.py'} 1"
    assert not (tmp_path / "export/ran").exists()


READS = """
import sys
from pathlib import Path
from export.artefact.own_process import run_each
from tests.export.artefact.test_own_process import note_what_is_read
if __name__ == "__main__":
    list(run_each(note_what_is_read, {"a": (Path(sys.argv[1]),)}))
"""

STARTS = """
import sys
from pathlib import Path
from export.artefact import own_process
from tests.export.artefact import test_own_process
if __name__ == "__main__":
    function, *places = sys.argv[1:]
    own_process.IMPORTED.clear()
    list(own_process.run_each(getattr(test_own_process, function), {place: (Path(place),) for place in places}))
"""


def starts(tmp_path, function, *names):
    (tmp_path / "starts.py").write_text(STARTS)
    command = [sys.executable, tmp_path / "starts.py", function, *(tmp_path / name for name in names)]
    root = str(Path(__file__).parents[3])
    return subprocess.Popen(command, env={"PYTHONPATH": root}, stderr=subprocess.PIPE, text=True)


def pid_in(path, deadline):
    while time.monotonic() < deadline:
        if path.is_file() and (text := path.read_text()):
            return int(text)
        time.sleep(0.05)
    raise AssertionError("the call has not begun")


def runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_call_ends_with_the_process_that_wanted_it_however_that_ends(tmp_path):
    deadline = time.monotonic() + 60
    program = starts(tmp_path, "sleep_long", "pid")
    worker = pid_in(tmp_path / "pid", deadline)
    program.kill()
    program.communicate()
    while runs(worker) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not runs(worker)


def test_a_call_that_is_ended_gives_back_what_it_shares(tmp_path):
    _, errors = starts(tmp_path, "share_a_lock", "shares", "refuses").communicate(timeout=60)
    assert "found this; change it" in errors
    assert "resource_tracker" not in errors


def sleep_whatever_comes(path):
    """A call in the hands of a library that does not come back to Python."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    path.write_text(str(os.getpid()))
    time.sleep(600)


def test_a_call_that_does_not_listen_is_ended_too(tmp_path):
    deadline = time.monotonic() + 60
    program = starts(tmp_path, "sleep_whatever_comes", "pid")
    worker = pid_in(tmp_path / "pid", deadline)
    program.kill()
    program.communicate()
    while runs(worker) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not runs(worker)
