import io

from rich.console import Console

from models.train.progress import progress


def shown(terminal: bool, steps: int) -> str:
    stream = io.StringIO()
    with progress("digits", Console(file=stream, force_terminal=terminal, width=100)) as report:
        for step in range(1, steps + 1):
            report(step, steps, 1 / step)
    return stream.getvalue()


def test_a_line_for_each_tenth_is_written_where_there_is_no_terminal() -> None:
    lines = shown(terminal=False, steps=200).splitlines()
    assert len(lines) == 10
    assert lines[-1] == "digits: step 200 of 200, loss 0.0050"
    assert "\x1b" not in "".join(lines)


def test_the_last_step_is_told_even_of_very_short_trainings() -> None:
    assert shown(terminal=False, steps=3).splitlines()[-1].startswith("digits: step 3 of 3")


def test_a_bar_is_drawn_on_a_terminal() -> None:
    drawn = shown(terminal=True, steps=4)
    assert "4/4" in drawn
    assert "loss 0.2500" in drawn
