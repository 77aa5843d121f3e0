import os
import resource
import subprocess
import sys
import threading

import pytest

from attendant.output_files import replaced_file, write_output


@pytest.fixture
def small_files():
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))  # Python ignores its signal
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("old", ["as it was", None])
def test_what_finds_no_room_leaves_what_was_there_and_nothing_else(tmp_path, small_files, old):
    path = tmp_path / "page.html"
    if old is not None:
        path.write_text(old)
    with pytest.raises(OSError, match="too large"):
        write_output(path, "x" * 8192)
    assert [one.name for one in tmp_path.iterdir()] == ([] if old is None else ["page.html"])
    assert old is None or path.read_text() == old


def test_a_file_is_replaced_whole_and_its_link_stays(tmp_path):
    (tmp_path / "real.txt").write_text("old")
    link = tmp_path / "link.txt"
    link.symlink_to("real.txt")
    with replaced_file(link) as staged:
        assert staged.suffix == ".txt" and staged.parent == tmp_path
        staged.write_text("new")
        assert link.read_text() == "old"
    assert link.is_symlink() and (tmp_path / "real.txt").read_text() == "new"
    assert len(list(tmp_path.iterdir())) == 2


def test_a_pipe_is_written_to(tmp_path):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_output(pipe, "text")
    reader.join(10)
    assert read == ["text"] and pipe.is_fifo()


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_who_may_read_a_file_stays_so(tmp_path, mode):
    path = tmp_path / "page.html"
    path.write_text("old")
    path.chmod(mode)
    write_output(path, "new")
    assert (path.stat().st_mode & 0o777, path.read_text()) == (mode, "new")


WRITE = "from pathlib import Path; from attendant.output_files import write_output; write_output(Path({!r}), 'text')"


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_what_a_process_has_open_is_written_to(tmp_path, name):
    command = [sys.executable, "-c", WRITE.format(name)]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "text"
    log = tmp_path / "log.txt"
    log.write_text("before ")
    with log.open("a") as file:
        subprocess.run(command, check=True, stdout=file)
    assert log.read_text() == "before text"


def test_a_file_beside_which_none_can_be_made_is_written_to(tmp_path):
    path = tmp_path / ("x" * 250 + ".html")  # no longer name is possible
    path.write_text("old and longer")
    write_output(path, "new")
    assert path.read_text() == "new" and len(list(tmp_path.iterdir())) == 1
    with pytest.raises(OSError, match="File name too long"):
        write_output(tmp_path / ("y" * 255), "new")
