"""Tests of one shared server run in one process, and each test belongs to one group that has a place in the order."""

from tests.planted_bugs import COLLECTED
from tests.scheduling import END_TO_END, GROUPS, ON_A_SHARED_SERVER, group_of, rank_of, server_of


def test_whatever_asks_a_shared_server_is_in_its_group(request):
    items = request.config.stash[COLLECTED]
    assert {file for item in items if server_of(item) and group_of(file := item.nodeid) != "shared servers"} == set()


def test_every_file_of_the_group_is_there(request):
    assert [file for file in ON_A_SHARED_SERVER if not (request.config.rootpath / file).is_file()] == []


def test_groups_are_files_but_for_those_that_are_named():
    assert group_of("tests/models/test_cli.py::test_one[a::b]") == "tests/models/test_cli.py"
    assert group_of(f"{END_TO_END}/test_waiting.py::test_one") == GROUPS[f"{END_TO_END}/test_waiting.py"]


def test_what_takes_longest_begins_first():
    short, long, longest = (
        "tests/export/test_axes.py::a",
        f"{END_TO_END}/test_up.py::a",
        f"{END_TO_END}/test_waiting.py::a",
    )
    assert sorted([short, long, longest], key=rank_of) == [longest, long, short]
