import io

from rich.console import Console

from commands.quickstart.answers import Answers
from commands.quickstart.outcome import Outcome
from commands.quickstart.prompts import PROMPTS, TOKENS
from commands.quickstart.showcase import Dates, Digits, Prompts


def shown(showcase, answers):
    console = Console(file=io.StringIO(), width=160)
    given = Answers(answers=answers)
    showcase.show(console, Outcome(name="x", truths=None, pytorch=given, process=given, served=given))
    return console.file.getvalue()


def test_digits_are_shown_as_pictures_with_their_answers():
    text = shown(Digits("digits-vit"), list("75331"))
    assert "@@" in text
    assert [word for word in text.splitlines()[-1].split() if word.isdigit()] == list("75331")


def test_dates_are_shown_with_their_answers_and_brackets_are_no_markup():
    text = shown(Dates("dates-gru", 2), ["1997-03-03", "[bold]"])
    assert "dates-gru" in text and "→ 1997-03-03" in text and "→ [bold]" in text


def test_a_continuation_is_shown_behind_its_prompt_on_one_line():
    text = shown(Prompts("stdlib-lm"), ["new\nlist"] * len(PROMPTS))
    assert f"{PROMPTS[0]}▸new list" in text
    assert TOKENS > 0
