"""Programs whose callers closed their standard streams, or do not read them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

LONG = "[(print(number), print(number, file=sys.stderr)) for number in range(100_000)]"
STREAMS = "import sys; from attendant import standard_streams as streams; "


def python(code, **streams):
    return subprocess.Popen([sys.executable, "-c", STREAMS + code], **streams)


@pytest.mark.planted
def test_nobody_who_does_not_read_holds_a_program_up():
    reading, writing = os.pipe()
    try:
        process = python(f"streams.never_wait_for_readers(); {LONG}", stdout=writing, stderr=writing)
        assert process.wait(60) == 0
        os.close(writing)
        assert b"".join(iter(lambda: os.read(reading, 1 << 20), b"")).startswith(b"0\n0\n1\n1\n")
    finally:
        os.close(reading)


@pytest.mark.planted
def test_a_reader_that_leaves_ends_no_program():
    with python(f"streams.never_wait_for_readers(); {LONG}; sys.exit(7)", stdout=subprocess.PIPE, stderr=-1) as process:
        process.stdout.close()
        process.stderr.close()
        assert process.wait(60) == 7


def test_what_a_terminals_encoding_lacks_is_printed_by_its_number():
    for encoding, printed in (("ascii", b"\\xe9\n"), ("utf-8", "é\n".encode())):
        with python(
            "streams.open_standard_streams(); print('é')", stdout=-1, env={"PYTHONIOENCODING": encoding}
        ) as process:
            assert process.stdout.read() == printed


def test_what_is_read_comes_whole_and_as_it_was_written():
    text = "é" * 100_000
    with python("streams.never_wait_for_readers(); print('é' * 99); print(sys.stdout.isatty())", stdout=-1) as process:
        assert process.stdout.read().decode() == text[:99] + "\nFalse\n"


@pytest.mark.planted
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_what_a_program_opens_takes_no_number_of_a_standard_stream(closed):
    code = (
        "import socket; streams.open_standard_streams(); one = socket.socket(); print('lost'); "
        "print('lost', file=sys.stderr); sys.stdin.read(); sys.exit(one.fileno())"
    )
    shell = f'exec "$0" -c "$1" {closed}'
    ended = subprocess.run(
        ["sh", "-c", shell, sys.executable, STREAMS + code], capture_output=True, input=b"", timeout=60
    )
    assert ended.returncode >= 3, ended


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_verb_works_with_closed_streams(closed):
    shell = f'exec "$0" -m attendant --version {closed}'
    ended = subprocess.run(["sh", "-c", shell, sys.executable], capture_output=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_a_full_disk_at_standard_output_is_one_line():
    with Path("/dev/full").open("w") as full:
        verb = [sys.executable, "-m", "attendant", "models", "list"]
        done = subprocess.run(verb, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: expected room for what is written; found [Errno 28]")


def test_a_working_directory_that_was_removed_is_one_line(tmp_path):
    code = (
        "import os; from attendant.cli import run; os.rmdir(os.getcwd()); run('a', 'A test.', {'b': os.getcwd}, ['b'])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, stderr=subprocess.PIPE, text=True, check=False)
    expected = "error: expected a working directory; found one that was removed; change into another\n"
    assert (done.returncode, done.stderr) == (1, expected)
