import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from attendant import folders
from attendant.errors import OutputError
from attendant.folders import clear_left_behind, one_at_a_time, replaced_folder, staged_beside

ROOT = Path(__file__).parent.parent.parent
KILLED_IN_THE_MIDDLE = """
import os, signal, sys
from pathlib import Path
from attendant.folders import clear_left_behind, one_at_a_time, replaced_folder
with replaced_folder(Path(sys.argv[1])) as staged:
    (staged / "new").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def two_renames(monkeypatch):
    """As on a file system without RENAME_EXCHANGE."""
    monkeypatch.setattr(folders, "_exchange", lambda first, second: False)


@pytest.fixture(params=["exchange", "two renames"])
def way(request):
    """Both ways of swapping: the one of Linux, and the one for file systems that lack it."""
    if request.param == "two renames":
        request.getfixturevalue("two_renames")


both_ways = pytest.mark.usefixtures("way")


@pytest.fixture
def target(tmp_path):
    """A folder with old contents."""
    folder = tmp_path / "artefact"
    (folder / "deep").mkdir(parents=True)
    (folder / "old").write_text("old")
    (folder / "deep" / "old").write_text("old")
    return folder


def contents(folder):
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


OLD = {"old": "old", "deep/old": "old"}


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def beside(folder):
    return names(folder.parent)


def test_a_folder_that_did_not_exist_is_made_with_its_parents(tmp_path):
    target = tmp_path / "a" / "b" / "artefact"
    with replaced_folder(target) as staged:
        (staged / "new").write_text("new")
        assert not target.exists()
    assert contents(target) == {"new": "new"}
    assert beside(target) == ["artefact"]


@both_ways
def test_a_folder_that_existed_is_replaced_as_a_whole(target):
    with replaced_folder(target) as staged:
        assert contents(staged) == {}
        (staged / "new").write_text("new")
        assert contents(target) == OLD
    assert contents(target) == {"new": "new"}
    assert beside(target) == ["artefact"]


@both_ways
def test_the_new_folder_can_be_read_by_others(target):
    with replaced_folder(target):
        pass
    assert target.stat().st_mode & 0o777 == 0o755


def test_a_relative_target_is_meant_from_where_the_block_began(target, monkeypatch, tmp_path):
    monkeypatch.chdir(target.parent)
    with replaced_folder(Path("artefact")) as staged:
        (staged / "new").write_text("new")
        monkeypatch.chdir("/")
    assert contents(target) == {"new": "new"}


@both_ways
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_error_inside_leaves_the_old_contents_and_nothing_else(error, target):
    with pytest.raises(error), replaced_folder(target) as staged:
        (staged / "new").write_text("half")
        raise error
    assert contents(target) == OLD
    assert beside(target) == ["artefact"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_inside_leaves_no_folder_where_there_was_none(error, tmp_path):
    with pytest.raises(error), replaced_folder(tmp_path / "artefact"):
        raise error
    assert list(tmp_path.iterdir()) == []


@both_ways
def test_a_process_killed_in_the_middle_leaves_the_old_contents(target):
    program = subprocess.run([sys.executable, "-c", KILLED_IN_THE_MIDDLE, str(target)], cwd=ROOT, check=False)
    assert program.returncode == -signal.SIGKILL
    assert contents(target) == OLD
    assert len(beside(target)) == 2  # what it had staged; nobody was left to clear it away
    with replaced_folder(target) as staged:
        (staged / "new").write_text("new")
    assert contents(target) == {"new": "new"}
    assert beside(target) == ["artefact"]


def test_what_a_living_process_stages_is_not_cleared_away(target):
    with replaced_folder(target) as first:
        (first / "new").write_text("first")
        with replaced_folder(target) as second:
            (second / "new").write_text("second")
        assert contents(first) == {"new": "first"}
    assert contents(target) == {"new": "first"}
    assert beside(target) == ["artefact"]


def test_a_process_killed_between_two_renames_has_its_old_contents_put_back(target):
    target.rename(target.with_name(".artefact.staging-abc-old"))
    with pytest.raises(KeyError), replaced_folder(target):
        assert contents(target) == OLD
        raise KeyError
    assert contents(target) == OLD
    assert beside(target) == ["artefact"]


def test_a_folder_of_a_user_that_is_called_almost_so_is_kept(target):
    other = target.with_name(".artefact.staging")
    other.mkdir()
    with replaced_folder(target):
        pass
    assert other.is_dir()


def test_where_a_file_system_has_no_locks_a_folder_is_replaced_and_nothing_is_cleared_away(target, monkeypatch):
    def no_locks(descriptor, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    other = target.with_name(".artefact.staging-abc")
    other.mkdir()
    with one_at_a_time(target), replaced_folder(target) as staged:
        (staged / "new").write_text("new")
    assert contents(target) == {"new": "new"}
    assert beside(target) == [".artefact.staging-abc", "artefact"]


def test_what_a_killed_process_has_left_is_cleared_away_without_writing_anew(target):
    killed = KILLED_IN_THE_MIDDLE.replace("with replaced", "with one_at_a_time(Path(sys.argv[1])), replaced")
    subprocess.run([sys.executable, "-c", killed, str(target)], cwd=ROOT, check=False)
    assert len(beside(target)) == 3
    clear_left_behind(target)
    assert beside(target) == ["artefact"]
    assert contents(target) == OLD


def test_what_another_user_has_called_so_stays_and_holds_nothing_up(target, monkeypatch):
    theirs = target.with_name(f".{target.name}.staging-abc")
    theirs.mkdir()
    clear_left_behind(target.with_name("other"))
    with monkeypatch.context() as patch:
        patch.setattr("attendant.folders.os.geteuid", lambda: os.getuid() + 1)
        clear_left_behind(target)
    assert beside(target) == [theirs.name, "artefact"]
    clear_left_behind(target)
    assert beside(target) == ["artefact"]


def test_a_folder_that_is_nested_too_deep_to_be_removed_holds_nothing_up(target):
    theirs = target.with_name(f".{target.name}.staging-abc")
    here = Path.cwd()
    try:
        theirs.mkdir()
        os.chdir(theirs)
        for _ in range(2000):
            Path("d").mkdir()
            os.chdir("d")
    finally:
        os.chdir(here)
    with replaced_folder(target) as staged:
        (staged / "new").write_text("new")
    assert contents(target) == {"new": "new"}
    subprocess.run(["rm", "-rf", str(theirs)], check=True)


def test_what_another_process_holds_is_not_cleared_away(target):
    with one_at_a_time(target), replaced_folder(target):
        held = beside(target)
        clear_left_behind(target)
        assert beside(target) == held and len(held) == 3


def test_what_a_process_has_left_that_was_killed_is_cleared_away_by_the_next_that_stages_beside_the_file(tmp_path):
    target = tmp_path / "x.onnx"
    target.write_text("old")
    code = KILLED_IN_THE_MIDDLE.replace("replaced_folder(", "staged_beside(").replace("one_at_a_time", "staged_beside")
    done = subprocess.run([sys.executable, "-c", code, str(target)], cwd=ROOT)
    assert done.returncode == -signal.SIGKILL and len(list(tmp_path.iterdir())) == 2
    with staged_beside(target) as staged:
        assert sorted(tmp_path.iterdir()) == sorted([staged, target])
        with staged_beside(target) as other:  # of a process that lives, nothing
            assert staged.is_dir() and other != staged
        (staged / target.name).write_text("new")
        (staged / target.name).replace(target)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["new"]
    with pytest.raises(OutputError, match="a place to write at"), staged_beside(tmp_path / "none" / "x.onnx"):
        pass


def test_where_there_is_no_folder_nothing_was_left_behind(tmp_path):
    clear_left_behind(tmp_path / "missing" / "artefact")
    assert names(tmp_path) == []


HOLDS = """
import sys
from pathlib import Path
from attendant.folders import one_at_a_time
with one_at_a_time(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""


def holder(target):
    command = [sys.executable, "-c", HOLDS, str(target)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=ROOT, text=True, **pipes)


def test_the_second_of_two_processes_waits_and_says_so(target):
    first = holder(target)
    assert first.stdout.readline() == "held\n"
    second = holder(target)
    assert second.stderr.readline() == f"another process is writing {target}: waiting until it has ended\n"
    assert second.poll() is None
    first.communicate("\n")
    assert second.stdout.readline() == "held\n"
    second.communicate("\n")
    assert (first.returncode, second.returncode) == (0, 0)
    assert beside(target) == ["artefact"]


def test_a_killed_process_holds_nothing(target):
    first = holder(target)
    assert first.stdout.readline() == "held\n"
    first.kill()
    first.communicate()
    with one_at_a_time(target):
        assert beside(target) == [".artefact.lock", "artefact"]
    assert beside(target) == ["artefact"]


def test_a_place_where_no_lock_can_lie_is_refused():
    with pytest.raises(OutputError, match="a place to write at /proc/artefact"), one_at_a_time(Path("/proc/artefact")):
        pytest.fail("the block was entered")


@pytest.mark.parametrize("place", ["/proc/attendant", "/proc/attendant/deep", "/dev/null/artefact"])
def test_a_place_that_cannot_be_written_is_refused_before_the_work_begins(place):
    with pytest.raises(OutputError) as caught, replaced_folder(Path(place)):
        pytest.fail("the block was entered")
    assert caught.value.expected == f"a place to write at {place}"
    assert "choose another --out" in caught.value.remedy


def test_a_file_in_the_folders_place_is_refused_and_kept(tmp_path):
    (tmp_path / "artefact").write_text("precious")
    with pytest.raises(OutputError, match="not a folder that can be written"), replaced_folder(tmp_path / "artefact"):
        pytest.fail("the block was entered")
    assert (tmp_path / "artefact").read_text() == "precious"


def test_a_full_disk_while_writing_is_an_error_of_the_place(target):
    with pytest.raises(OutputError, match="No space left on device; free some space"), replaced_folder(target):
        raise OSError(28, "No space left on device")
    assert contents(target) == OLD


@both_ways
def test_a_link_to_a_folder_leaves_nothing_staged_behind(target):
    link = target.with_name("link")
    link.symlink_to(target)
    with replaced_folder(link) as staged:
        (staged / "new").write_text("new")
    assert contents(link) == {"new": "new"}
    assert beside(target) == ["artefact", "link"]


@pytest.mark.usefixtures("two_renames")
@pytest.mark.parametrize("error", [PermissionError, KeyboardInterrupt])
def test_when_the_second_of_two_renames_fails_the_first_is_undone(error, target, monkeypatch):
    rename = Path.rename

    def failing_rename(path, to):
        if Path(to) == target and not path.name.endswith("-old"):
            raise error("no")
        return rename(path, to)

    monkeypatch.setattr(Path, "rename", failing_rename)
    with pytest.raises((OutputError, KeyboardInterrupt)), replaced_folder(target) as staged:
        (staged / "new").write_text("new")
    assert contents(target) == OLD
    assert beside(target) == ["artefact"]


def require_exchange(place):
    """Skip where two folders cannot be swapped in one step."""
    first, second = place / "first", place / "second"
    for folder in (first, second):
        folder.mkdir()
        (folder / folder.name).touch()
    if not folders._exchange(first, second):
        pytest.skip("needs a file system with RENAME_EXCHANGE")
    return first, second


def test_an_exchange_swaps_two_folders(tmp_path):
    first, second = require_exchange(tmp_path)
    assert (names(first), names(second)) == (["second"], ["first"])


def test_an_exchange_with_nothing_fails_and_changes_nothing(tmp_path):
    (tmp_path / "first").mkdir()
    assert not folders._exchange(tmp_path / "first", tmp_path / "missing")
    assert names(tmp_path) == ["first"]


def test_where_folders_can_be_exchanged_there_is_no_moment_without_the_target(target, tmp_path_factory, monkeypatch):
    require_exchange(tmp_path_factory.mktemp("trial"))
    monkeypatch.setattr(Path, "rename", lambda *_: pytest.fail("two renames leave a moment without the target"))
    with replaced_folder(target) as staged:
        (staged / "new").write_text("new")
    assert contents(target) == {"new": "new"}
