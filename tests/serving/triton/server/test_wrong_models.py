"""When a model that answered wrongly may be loaded again."""

import os
import shutil
import threading

import pytest

from serving.triton.server import troubles
from serving.triton.server.wrong_models import WrongModels


@pytest.fixture
def wrong(tmp_path):
    (tmp_path / "double" / "1").mkdir(parents=True)
    (tmp_path / "double" / "1" / "model.py").write_text("")
    (tmp_path / "double" / "config.pbtxt").write_text("")
    return WrongModels(tmp_path)


def test_it_waits_ever_longer_until_its_files_change(wrong):
    assert wrong.pause_s("double") == 0 and wrong.names() == set()
    wrong.load("double")
    wrong.count("double")
    first = wrong.pause_s("double")
    wrong.count("double")
    assert troubles.AGAIN_S < first < wrong.pause_s("double") <= troubles.MOST_S and wrong.names() == {"double"}
    for file in ("config.pbtxt", "1/model.py"):
        os.utime(wrong.repository / "double" / file, ns=(1, 1))
        assert wrong.pause_s("double") == 0
        wrong.load("double")
        wrong.count("double")
        assert wrong.pause_s("double") > 0
    wrong.load("double")
    os.utime(wrong.repository / "double" / "config.pbtxt", ns=(2, 2))
    wrong.count("double")
    assert wrong.pause_s("double") == 0, "mended while it was loaded"
    wrong.forget("double")
    assert wrong.pause_s("double") == 0 and wrong.names() == set()


@pytest.mark.planted
def test_folders_that_are_made_and_removed_meanwhile_are_no_error(wrong):
    ended = threading.Event()

    def churn():
        while not ended.is_set():
            for number in range(5, 30):
                (wrong.repository / "double" / str(number)).mkdir()
            for number in range(5, 30):
                (wrong.repository / "double" / str(number)).rmdir()

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        wrong.load("double")
        wrong.count("double")
        for _ in range(300):
            wrong.due_s("double")
    finally:
        ended.set()
        thread.join()


def test_what_has_changed_since_its_load_is_known_once_something_was_loaded(wrong):
    assert wrong.changed() == set()
    shutil.copytree(wrong.repository / "double", wrong.repository / "other")
    for name in ("double", "other"):
        wrong.load(name)
        wrong.note_loaded(name)
    assert wrong.changed() == set()
    config, before = wrong.repository / "double" / "config.pbtxt", (wrong.repository / "double" / "config.pbtxt").stat()
    config.write_text("x" * before.st_size)
    os.utime(config, ns=(before.st_atime_ns, before.st_mtime_ns))  # as an archive of files without times does
    assert wrong.changed() == {"double"}
    wrong.load("double")
    assert wrong.changed() == {"double"}, "perhaps it never will be"
    wrong.note_loaded("double")
    shutil.copytree(wrong.repository / "double", wrong.repository / "added")
    assert wrong.changed() == {"added"}
    wrong.load("added")
    assert wrong.changed() == {"added"}


def test_where_all_have_changed_as_by_a_chmod_a_server_begins_with_those_that_were_loaded(wrong):
    wrong.load("double")
    wrong.note_loaded("double")
    shutil.copytree(wrong.repository / "double", wrong.repository / "added")
    (wrong.repository / "double" / "config.pbtxt").chmod(0o600)
    assert wrong.changed() == {"added"}
