"""The committed list of planted bugs is what is marked, in every file that a run collects: `make test` collects all."""

from tests.planted_bugs import COLLECTED, ROOT, listed, planted


def test_the_planted_bugs_are_those_of_the_list(request):
    items = request.config.stash[COLLECTED]
    collected = {item.nodeid.split("::")[0] for item in items}
    assert {one for one in listed() if one.split("::")[0] in collected} == planted(items)


def test_every_file_of_the_list_is_there():
    assert [file for file in {one.split("::")[0] for one in listed()} if not (ROOT / file).exists()] == []
