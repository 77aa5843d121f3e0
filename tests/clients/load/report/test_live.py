"""A run shows how it goes, and costs its generator next to nothing."""

from clients.load.record import RequestOutcome
from clients.load.report.live import LiveTally, live
from tests.clients.load.simulated import records


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_rates_are_those_of_the_last_two_seconds():
    clock = Clock()
    tally = LiveTally(10.0, clock)
    one, two = records(count=2, tokens=5)
    for _ in range(8):
        tally.note(one)
    clock.now += 3.0
    tally.note(two)
    assert tally.seconds == 3.0
    assert "0.5 requests/s · 2.5 tokens/s" in tally.line()
    assert "9 ok" in tally.line()


def test_nothing_yet_is_no_error():
    assert LiveTally(None, Clock()).line() == "0 requests/s"


def test_lines_come_seldom_where_there_is_no_terminal(capsys):
    clock = Clock()
    with live("digits", 22.0, clock) as note:
        for one in records(count=110):
            clock.now += 0.2
            note(one)
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 4
    assert told[0].startswith("digits, 5 s: ")
    assert f"100 {RequestOutcome.OK.value}" in told[-1]
