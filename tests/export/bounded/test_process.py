"""Calls in a process of its own end with an error that says what happened, whatever they do."""

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from attendant.errors import ArtefactError, ConfigError
from export.bounded import process
from export.bounded.process import MEMORY_SHARE, available_memory, guarded, run_bounded
from serving.processes import process_of

ROOT = Path(__file__).parents[3]


def write_pid(folder, name="pid"):
    (folder / f"{name}.part").write_text(str(os.getpid()))
    (folder / f"{name}.part").rename(folder / name)
    return folder, name


def refuse(folder):
    raise ConfigError("something else", "this", "change it")


def fail(folder):
    raise LookupError("a bug of ours")


def fail_in_a_way_that_cannot_be_sent(folder):
    class UnknownError(Exception):
        pass

    raise UnknownError("of this process alone")


def fail_with_a_graph(folder):
    with guarded(f"a library to run {folder}/model.onnx"):
        raise LookupError("no such operator")


def sleep_with_a_graph(folder):
    write_pid(folder)
    Path(tempfile.mkstemp()[1]).write_text("a profile")
    (folder / "temporary").write_text(tempfile.gettempdir())
    with guarded(f"a library to run {folder}/model.onnx"):
        time.sleep(600)


def sleep_without_a_graph(folder):
    with guarded("a library to run a/model.onnx"):
        pass
    time.sleep(2)
    return "slept"


def end_by_a_signal(folder, number, with_a_graph):
    if not with_a_graph:
        os.kill(os.getpid(), number)
    with guarded(f"a library to run {folder}/model.onnx"):
        os.kill(os.getpid(), number)


def leave(folder):
    with guarded(f"a library to run {folder}/model.onnx"):
        os._exit(3)


def fill_memory(folder, count):
    return len(np.ones(count, np.uint8))


def bounded(function, *arguments, **bounds):
    return run_bounded(f"{__name__}:{function.__name__}", *arguments, **bounds)


def test_what_a_function_returns_comes_back_from_another_process(tmp_path):
    assert bounded(write_pid, tmp_path, "here") == (tmp_path, "here")
    assert int((tmp_path / "here").read_text()) != os.getpid()


def test_an_error_of_ours_comes_across_as_it_was_raised(tmp_path):
    with pytest.raises(ConfigError, match="found this; change it") as raised:
        bounded(refuse, tmp_path)
    assert "in refuse" in "".join(raised.value.__notes__)


def test_a_bug_of_ours_stays_one_and_keeps_its_traceback(tmp_path):
    with pytest.raises(LookupError, match="a bug of ours") as raised:
        bounded(fail, tmp_path)
    assert "in fail" in "".join(raised.value.__notes__)


def test_an_error_that_cannot_be_sent_is_told_by_name(tmp_path):
    with pytest.raises(RuntimeError, match="UnknownError: of this process alone"):
        bounded(fail_in_a_way_that_cannot_be_sent, tmp_path)


def test_a_librarys_failure_is_the_graphs(tmp_path):
    with pytest.raises(ArtefactError, match=r"to run .*/model\.onnx; found LookupError: no such operator; do not use"):
        bounded(fail_with_a_graph, tmp_path)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGABRT])
def test_an_end_by_a_signal_names_the_graph(number, tmp_path):
    with pytest.raises(
        ArtefactError, match=f"a library to run .*/model.onnx; found the process ended by {number.name}"
    ):
        bounded(end_by_a_signal, tmp_path, number, True)


def test_an_end_by_a_signal_names_the_limit_of_time_that_there_is(tmp_path):
    before, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (12345, hard))
    try:
        with pytest.raises(ArtefactError, match=r"SIGXCPU; it may take .* and 12345 s of a processor \(ulimit -t\)"):
            bounded(end_by_a_signal, tmp_path, signal.SIGXCPU, True)
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, (before, hard))


def test_an_end_between_graphs_names_the_artefact(tmp_path):
    with pytest.raises(ArtefactError, match=f"the graphs of {tmp_path} to run; found the process ended by SIGSEGV"):
        bounded(end_by_a_signal, tmp_path, signal.SIGSEGV, False)


def test_a_process_that_leaves_without_an_answer_is_told_with_its_status(tmp_path):
    with pytest.raises(ArtefactError, match="found the process ended by status 3"):
        bounded(leave, tmp_path)


def test_a_graph_that_takes_too_long_ends_with_its_process_and_leaves_no_files(tmp_path):
    with pytest.raises(ArtefactError, match=r"a library to run .*/model.onnx within 0\.5 s; found it still at work"):
        bounded(sleep_with_a_graph, tmp_path, timeout_s=0.5)
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists()
    temporary = Path((tmp_path / "temporary").read_text())
    assert temporary.name and not temporary.exists()


def test_only_the_time_with_a_graph_counts(tmp_path):
    assert bounded(sleep_without_a_graph, tmp_path, timeout_s=0.5) == "slept"


def test_more_memory_than_it_may_take_is_refused(tmp_path):
    assert bounded(fill_memory, tmp_path, 300 << 20) == 300 << 20
    with pytest.raises(ArtefactError, match="graphs that take at most 210 MB to check; found more"):
        bounded(fill_memory, tmp_path, 300 << 20, most_bytes=200 << 20)


def test_the_memory_of_a_container_counts_where_it_is_less(tmp_path, monkeypatch):
    machine = available_memory()
    limit, used = tmp_path / "max", tmp_path / "current"
    monkeypatch.setattr(process, "_LIMIT", limit)
    monkeypatch.setattr(process, "_USED", used)
    used.write_text("1000\n")
    limit.write_text("max\n")
    assert available_memory() > 0.5 * machine > 0
    limit.write_text("5000\n")
    assert available_memory() == 4000
    assert 0 < MEMORY_SHARE < 1


def start_sleeper(folder):
    code = f"from pathlib import Path; from {__name__} import *; bounded(sleep_with_a_graph, Path({str(folder)!r}))"
    place = {**os.environ, "TMPDIR": str(folder)}  # noqa: TID251  a process that is killed leaves its files
    running = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, env=place, start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    while not (folder / "pid").exists():
        assert running.poll() is None, running.communicate()
        time.sleep(0.05)
    return running, process_of(int((folder / "pid").read_text()))


def ends(one):
    until = time.monotonic() + 10
    while one.lives and time.monotonic() < until:
        time.sleep(0.02)
    return not one.lives


def test_the_process_ends_with_whoever_started_it(tmp_path):
    starter, child = start_sleeper(tmp_path)
    starter.kill()
    starter.communicate()
    assert ends(child)


def test_a_ctrl_c_ends_both_and_only_the_starter_says_so(tmp_path):
    starter, child = start_sleeper(tmp_path)
    os.kill(child.pid, signal.SIGINT)
    time.sleep(0.3)
    assert child.lives, "or it would say so, too"
    os.killpg(starter.pid, signal.SIGINT)
    _, errors = starter.communicate(timeout=20)
    assert ends(child)
    assert errors.count("Traceback") == errors.count("KeyboardInterrupt") == 1
