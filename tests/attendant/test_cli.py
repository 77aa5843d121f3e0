import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from attendant.cli import INTERRUPTED_STATUS, run
from attendant.errors import ConfigError, ServerError

ROOT = Path(__file__).parent.parent.parent
PRINTER = """
import sys
from attendant.cli import run
def few() -> int:
    print("a line")
    return 0
def many() -> int:
    print("a line\\n" * 100_000)
    return 0
run("prog", "A test.", {"few": few, "many": many}, sys.argv[1:])
"""


def fine(count: int = 0) -> int:
    """Print the count.

    Args:
        count: what to print, and to answer.
    """
    print(count)  # noqa: T201
    return count


def mistake() -> int:
    """A user's mistake."""
    raise ConfigError("a number", "two\n  lines", "write a number")


def failure() -> int:
    """A server's failure."""
    raise ServerError("an answer", "none", "start the server")


def bug() -> int:
    """A mistake of ours."""
    raise ZeroDivisionError("division by\nzero")


def interrupted() -> int:
    """Control-C."""
    raise KeyboardInterrupt


def resolving(path: Path) -> int:
    """Resolve a path.

    Args:
        path: to be resolved.
    """
    path.resolve().exists()
    return 0


VERBS = {verb.__name__: verb for verb in (fine, mistake, failure, bug, interrupted, resolving)}


def status_of(*words):
    with pytest.raises(SystemExit) as caught:
        run("prog", "A test.", VERBS, words)
    return caught.value.code


@pytest.mark.parametrize("count", [0, 3])
def test_a_verb_that_returns_leaves_with_its_status(count, capsys):
    assert status_of("fine", "--count", str(count)) == count
    assert capsys.readouterr() == (f"{count}\n", "")


@pytest.mark.parametrize(
    ("verb", "status", "line"),
    [
        ("mistake", 2, "error: expected a number; found two lines; write a number\n"),
        ("failure", 1, "error: expected an answer; found none; start the server\n"),
        ("bug", 1, "unexpected ZeroDivisionError: division by zero\n"),
        ("interrupted", 130, ""),
    ],
)
def test_an_error_is_one_line_on_standard_error_and_its_status(verb, status, line, capsys):
    assert status_of(verb) == status
    assert capsys.readouterr() == ("", line)


def test_a_path_that_no_file_system_takes_is_an_error_of_the_users(tmp_path, capsys):
    (loop := tmp_path / "loop").symlink_to(loop)
    for path, found in ((loop / "in", "levels of symbolic links"), ("n" * 300, "File name too long")):
        assert status_of("resolving", "--path", str(path)) == 1
        line = capsys.readouterr().err
        assert line.startswith("error: expected paths without loops") and found in line


@pytest.mark.parametrize("words", [("mistake", "--verbose"), ("--verbose", "bug")], ids=str)
def test_verbose_anywhere_shows_the_traceback_in_front_of_the_line(words, capsys):
    assert status_of(*words) in (1, 2)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "test_cli.py" in "".join(lines)
    assert lines[-1].startswith(("error: ", "unexpected ZeroDivisionError: "))


@pytest.mark.parametrize(
    "words", [(), ("no-such-verb",), ("fine", "--no-such-flag"), ("fine", "--count", "x")], ids=str
)
def test_a_line_that_cannot_be_read_ends_with_2_and_says_so_on_standard_error(words, capsys):
    assert status_of(*words) == 2
    assert capsys.readouterr().err


def test_help_names_every_verb_and_the_way_to_a_traceback(capsys):
    assert status_of("--help") == 0
    shown = capsys.readouterr().out
    assert all(verb in shown for verb in VERBS)
    assert "A test." in shown
    assert "--verbose" in shown


@pytest.mark.parametrize("verb", ["few", "many"])
def test_a_reader_that_leaves_early_is_told_nothing_and_the_status_is_1(verb):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}  # noqa: TID251  (a process launcher)
    environment.pop("PYTHONUNBUFFERED", None)
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as nobody:
        program = subprocess.run(
            [sys.executable, "-c", PRINTER, verb], stdout=nobody, stderr=subprocess.PIPE, env=environment, check=False
        )
    assert (program.returncode, program.stderr) == (1, b"")


WRITER = """
import sys, time
from pathlib import Path
from attendant.cli import run
from attendant.folders import replaced_folder
def write() -> int:
    with replaced_folder(Path("target")) as folder:
        print(folder, flush=True)
        time.sleep(60)
    return 0
run("prog", "A test.", {"write": write}, ["write"])
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_verb_that_is_ended_by_a_signal_leaves_no_half_written_folder(number, tmp_path):
    command = [sys.executable, "-c", WRITER]
    with subprocess.Popen(command, cwd=tmp_path, stdout=-1, text=True) as writer:
        assert Path(writer.stdout.readline().strip()).is_dir()
        writer.send_signal(number)
        assert writer.wait(60) == 128 + number
    assert list(tmp_path.iterdir()) == []


def test_a_signal_that_a_caller_has_ignored_stays_ignored(tmp_path):
    command = ["nohup", sys.executable, "-c", WRITER.replace("60", "1")]
    with subprocess.Popen(command, cwd=tmp_path, stdout=-1, text=True) as writer:
        writer.stdout.readline()
        writer.send_signal(signal.SIGHUP)
        assert writer.wait(60) == 0


IGNORING = """
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, "-c", sys.argv[1]])
"""
ASKING = """
import subprocess, sys
from attendant.cli import run
child = [sys.executable, "-c", "import sys; sys.exit(3)"]
run("prog", "A test.", {"ask": lambda: subprocess.run(child).returncode}, ["ask"])
"""


def test_children_are_asked_how_they_ended_though_a_caller_has_ignored_that(tmp_path):
    command = [sys.executable, "-c", IGNORING, ASKING]
    assert subprocess.run(command, cwd=tmp_path, check=False).returncode == 3


SERVES = """
import signal
from serving.interrupts import heed_signals
def write():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    heed_signals()
    return write_folder()
"""


@pytest.mark.parametrize(
    ("number", "serves", "status"),
    [(signal.SIGTERM, False, 143), (signal.SIGHUP, False, 129), (signal.SIGINT, False, 130), (15, True, 130)],
)
def test_a_signal_within_a_callback_of_the_interpreter_is_not_lost(number, serves, status, tmp_path):
    callback = (
        "\nclass Held: pass\nheld = Held()\nref = weakref.ref(held, lambda _: (print(flush=True), time.sleep(60)))\n"
    )
    program = WRITER.replace("import sys, time", "import sys, time, weakref" + callback)
    program = program.replace("        time.sleep(60)", "        globals().pop('held')\n        time.sleep(60)")
    if serves:
        program = program.replace("def write()", "def write_folder()").replace("\nrun(", f"{SERVES}run(")
    with subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, stdout=-1, stderr=-1, text=True) as writer:
        assert Path(writer.stdout.readline().strip()).is_dir() and writer.stdout.readline() == "\n"
        writer.send_signal(number)
        assert writer.wait(60) == status
        assert writer.stderr.read() == ""
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_while_a_verb_is_imported_is_one_and_no_error_of_the_library(tmp_path):
    (tmp_path / "slow_library.py").write_text(
        "import os, signal, time\n"
        "try:\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(0.1)\n"
        "except KeyboardInterrupt:\n"
        "    raise ImportError('the library failed to import') from None\n"
        "def verb() -> int:\n"
        "    return 0\n"
    )
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from attendant.cli import run;"
        "run('prog', 'A test.', {'verb': 'slow_library:verb'}, ['verb'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (INTERRUPTED_STATUS, "")
