"""Tests of one shared server run in one process, and each test belongs to one group that has a place in the order."""

import subprocess
import sys

from tests.end_to_end.asking import PATIENCE_S
from tests.planted_bugs import COLLECTED
from tests.scheduling import END_TO_END, GROUPS, ON_A_SHARED_SERVER, group_of, rank_of, server_of

FILES = 7


def test_whatever_asks_a_shared_server_is_in_its_group(request):
    items = request.config.stash[COLLECTED]
    assert {file for item in items if server_of(item) and group_of(file := item.nodeid) != "shared servers"} == set()


def test_every_file_of_the_group_is_there(request):
    assert [file for file in ON_A_SHARED_SERVER if not (request.config.rootpath / file).is_file()] == []


def test_groups_are_files_but_for_those_that_are_named():
    assert group_of("tests/attendant/test_cli.py::test_one[a::b]") == "tests/attendant/test_cli.py"
    assert group_of(f"{END_TO_END}/test_waiting.py::test_one") == GROUPS[f"{END_TO_END}/test_waiting.py"]


def test_what_takes_longest_begins_first():
    short, long, longest = (
        "tests/export/graph/test_axes.py::a",
        f"{END_TO_END}/test_up.py::a",
        f"{END_TO_END}/test_waiting.py::a",
    )
    assert sorted([short, long, longest], key=rank_of) == [longest, long, short]


def test_a_test_that_ends_its_process_is_named_and_all_others_are_run(tmp_path):
    for one in range(FILES):
        ends = "__import__('os')._exit(1)" if one == FILES // 2 else "pass"
        (tmp_path / f"test_{one}.py").write_text(f"def test_one(): pass\ndef test_two(): {ends}\n")
    (tmp_path / "conftest.py").write_text(
        "from tests.scheduling import Scheduling\n"
        "def pytest_xdist_make_scheduler(config, log): return Scheduling(config, log)\n"
    )
    options = ["-p", "no:cacheprovider", "--numprocesses", "2", "--dist", "loadscope", "--no-loadscope-reorder"]
    command = [sys.executable, "-m", "pytest", *options, "--rootdir", tmp_path, tmp_path]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert f"crashed while running 'test_{FILES // 2}.py::test_two'" in ran.stdout
    assert f"1 failed, {2 * FILES - 1} passed" in ran.stdout
