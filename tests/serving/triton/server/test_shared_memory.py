from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from attendant.temporary_folders import folder_prefix, pid_namespace
from serving.triton.server.shared_memory import (
    is_orphan,
    narrow_regions,
    new_server_name,
    region_prefix,
    remove_dead_regions,
    remove_regions,
)


def _region(directory: Path, name: str) -> Path:
    region = directory / f"{region_prefix(name)}3f2a"
    region.touch()
    return region


def _dead_pid() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    return process.pid


def test_a_dead_starters_regions_go_and_a_living_ones_stay(tmp_path: Path):
    dead, living = _region(tmp_path, new_server_name(_dead_pid())), _region(tmp_path, new_server_name(os.getpid()))
    remove_dead_regions(tmp_path)
    assert (dead.exists(), living.exists()) == (False, True)


def test_folders_that_are_called_as_regions_hold_nothing_up(tmp_path: Path):
    for remove, name in ((remove_dead_regions, new_server_name(_dead_pid())), (remove_regions, "attendant_1_1_beef")):
        folder, other = tmp_path / f"{region_prefix(name)}", _region(tmp_path, name)
        (folder / "in").mkdir(parents=True)
        remove(tmp_path) if remove is remove_dead_regions else remove(name, tmp_path)
        assert (folder.exists(), other.exists()) == (True, False)


def test_regions_of_another_pid_namespace_stay(tmp_path: Path):
    region = _region(tmp_path, f"attendant_{pid_namespace() + 1}_{_dead_pid()}_beef")
    remove_dead_regions(tmp_path)
    assert region.exists()


def test_regions_that_only_resemble_ours_stay(tmp_path: Path):
    names = ["attendant_notes", "attendant_1_x_y_z", "triton_python_backend_shm_region_1", f"my_{new_server_name(1)}_"]
    for name in names:
        (tmp_path / name).touch()
    remove_dead_regions(tmp_path)
    for name in ("", "attendant", *names):
        remove_regions(name, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)


def test_one_servers_regions_go_and_its_siblings_stay(tmp_path: Path):
    one, sibling = new_server_name(os.getpid()), new_server_name(os.getpid())
    ours, theirs = _region(tmp_path, one), _region(tmp_path, sibling)
    remove_regions(one, tmp_path)
    assert (ours.exists(), theirs.exists()) == (False, True)


def test_a_folder_of_a_dead_process_is_an_orphan_and_of_a_living_one_none():
    assert is_orphan(f"{folder_prefix(_dead_pid())}x7f_q2") and not is_orphan(f"{folder_prefix(os.getpid())}x7f_q2")


def test_no_other_user_may_read_the_regions_and_links_of_others_lead_nowhere(tmp_path: Path):
    name = new_server_name(os.getpid())
    ours, foreign, elsewhere = _region(tmp_path, name), tmp_path / "attendant_1_1_beef_3f2a", tmp_path / "elsewhere"
    for path in (foreign, elsewhere):
        path.touch()
    for path in (ours, foreign, elsewhere):
        path.chmod(0o644)
    (tmp_path / f"{region_prefix(name)}link").symlink_to(elsewhere)
    os.mkfifo(tmp_path / f"{region_prefix(name)}pipe", 0o644)
    narrow_regions(name, tmp_path)
    assert [path.stat().st_mode & 0o777 for path in (ours, foreign, elsewhere)] == [0o600, 0o644, 0o644]
    narrow_regions(name, tmp_path / "gone")
