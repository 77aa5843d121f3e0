import os
import resource
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
