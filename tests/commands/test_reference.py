"""The generated pages of docs/reference are what the code says today."""

import pytest

from commands.reference import FOLDER, PAGES, command_line_page
from tests.test_command_lines import FROZEN


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_writes(name):
    assert (FOLDER / name).read_text() == PAGES[name](), "run python -m commands.reference"


def test_every_verb_is_on_the_page_of_the_command_line():
    page = command_line_page()
    assert [verb for verb in FROZEN if f"\n## attendant {verb}\n" not in page] == []
