import re

import pytest

from attendant import progress as module
from attendant.progress import progress

TERMINAL = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": "100"}


def lines_of(total, capsys):
    with progress("training", total) as advance:
        for step in range(1, total + 1):
            advance(f"step {step}")
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()


def test_without_a_terminal_each_step_is_a_plain_line_on_standard_error(capsys):
    lines = lines_of(3, capsys)
    assert [re.sub(r"\d+\.\d s", "T", line) for line in lines] == [
        "training 1/3 (T): step 1",
        "training 2/3 (T): step 2",
        "training 3/3 (T): step 3",
    ]


@pytest.mark.parametrize("total", [1, 9, 10, 11, 19, 20, 25, 99, 1000])
def test_long_work_writes_about_ten_lines_and_always_the_last(total, capsys):
    lines = lines_of(total, capsys)
    assert min(total, 5) <= len(lines) <= 11
    assert lines[-1].startswith(f"training {total}/{total} ")


def test_work_of_no_steps_writes_nothing(capsys):
    assert lines_of(0, capsys) == []


def test_an_error_in_the_work_passes_through(capsys):
    with pytest.raises(ZeroDivisionError), progress("training", 2) as advance:
        advance("one")
        raise ZeroDivisionError
    assert capsys.readouterr().err.count("\n") == 1


def test_what_was_finished_stays_on_its_line(capsys):
    with progress("writing", 1) as advance:
        advance("two\n\nlines")
    assert capsys.readouterr().err.endswith(": two lines\n")


def test_what_is_left_is_as_slow_as_what_is_done(capsys, monkeypatch):
    clock = iter((0.0, 3.0, 6.0, 9.0, 12.0))
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    assert [line.partition(":")[0] for line in lines_of(4, capsys)] == [
        "training 1/4 (3.0 s, 9 s left)",
        "training 2/4 (6.0 s, 6 s left)",
        "training 3/4 (9.0 s, 3 s left)",
        "training 4/4 (12.0 s)",
    ]


@pytest.fixture
def terminal(monkeypatch):
    """Standard error as on a terminal."""
    for name, value in TERMINAL.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(module.Console, "is_terminal", property(lambda _: True))


@pytest.mark.usefixtures("terminal")
def test_on_a_terminal_work_within_work_has_a_bar_below_until_it_is_done(capsys):
    with progress("outer", 2) as outer:
        with progress("inner", 1) as inner:
            inner("half")
        outer("first")
        with progress("second", 1) as inner:
            inner("half")
        outer("last")
    last = capsys.readouterr().err.rpartition("\r")[2]
    assert "outer: last" in last and "inner" not in last and "second" not in last


@pytest.mark.usefixtures("terminal")
def test_an_error_on_a_terminal_leaves_the_next_bar_a_display_of_its_own(capsys):
    with pytest.raises(ZeroDivisionError), progress("outer", 1), progress("inner", 1):
        raise ZeroDivisionError
    assert "training: step 1" in "\n".join(lines_of(1, capsys))


@pytest.mark.usefixtures("terminal")
def test_on_a_terminal_it_is_a_bar_that_ends_full(capsys):
    shown = "\n".join(lines_of(2, capsys))
    assert "\x1b[" in shown
    assert "training: step 2" in shown
    assert "2/2" in shown
