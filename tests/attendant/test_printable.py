import pytest

from attendant.cli import run
from attendant.errors import ServerError
from attendant.printable import for_output, printable, shown
from serving.lint.report import print_problems

HOSTILE = "a\x1b]0;pwned\x07\x1b[2J\r\n: ok \u202e\x9b31m \udcff é 数 x"
HARMLESS = "a\\x1b]0;pwned\\x07\\x1b[2J\\r\\n: ok \\u202e\\x9b31m \\udcff é 数 x"


def test_what_a_terminal_would_obey_is_shown():
    assert printable(HOSTILE) == HARMLESS


@pytest.mark.parametrize(("is_terminal", "found"), [(False, "a\x1b[2J\n\tb\r"), (True, "a\\x1b[2J\n\tb\\r")])
def test_what_a_model_says_is_harmless_on_a_terminal_and_itself_in_a_pipe(monkeypatch, is_terminal, found):
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
    assert for_output("a\x1b[2J\n\tb\r") == found


def test_an_error_and_the_linter_show_it(capsys):
    def fail() -> int:
        """Fail."""
        raise ServerError("none", "a\x1b[2J\nb", "none")

    with pytest.raises(SystemExit):
        run("prog", "A test.", {"fail": fail}, ["fail"])
    assert capsys.readouterr().err == "error: expected none; found a\\x1b[2J b; none\n"
    print_problems("models/[/b]\x1b[2J", [])
    assert capsys.readouterr().out == "models/[/b]\\x1b[2J: 0 errors, 0 warnings\n"


@pytest.mark.parametrize("value", ["x" * 10**6, [[0] * 10**6] * 10**6, 10**400, [16**5000]])
def test_a_value_that_was_found_is_shown_in_few_characters(value):
    assert len(shown(value)) <= 200
