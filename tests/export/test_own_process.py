import os
import signal

import pytest

from export.own_process import run_each
from models.errors import ConfigError, ExportError


def write_pid(path):
    path.write_text(str(os.getpid()))


def refuse(path):
    raise ConfigError("something else", "this", "change it")


def fail(path):
    raise LookupError("no such operator")


def die(path):
    os.kill(os.getpid(), signal.SIGKILL)


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
