"""Which recordings are kept, by number and by the memory that they take; what they do is tested with the runner."""

import pytest

from serving.runtime.tensorrt import recorded_steps
from serving.runtime.tensorrt.device import Device
from serving.runtime.tensorrt.recorded_steps import SHARE, RecordedStep, RecordedSteps
from tests.serving.runtime.tensorrt.fake_driver import FakeDriver

MIB = 1 << 20


class Steps:
    """Steps of one number, over a driver that says what a recording takes."""

    def __init__(self, mib, total=1024):
        self.driver = FakeDriver(total=total * MIB, recording_bytes=mib * MIB)
        self.device = Device(self.driver)
        self.made, self.ran = [], []
        self.steps = RecordedSteps(self.device)

    def run(self, kind, times=3):
        def make():
            self.made.append(kind)
            return RecordedStep(lambda: self.driver.run(self.device.compute, lambda: self.ran.append(kind)), {})

        for _ in range(times):
            self.steps.run(kind, make)

    @property
    def kept(self):
        return sum(record is not None for record in self.driver.recordings.values())


@pytest.mark.parametrize(("mib", "kept"), [(0, 20), (1, 20), (8, 8), (15, 4), (64, 1), (1000, 1)])
def test_as_many_are_kept_as_fit_into_their_share_of_the_memory_and_the_newest_always(mib, kept):
    steps = Steps(mib)
    for kind in range(20):
        steps.run(kind)
    assert steps.kept == kept == min(20, max(1, 1024 // SHARE // max(mib, 1)))
    assert steps.driver.replays == 40, "every one is recorded at its second time and launched from then on"


def test_the_one_unused_for_longest_makes_room_and_what_it_had_queued_is_done_before():
    steps = Steps(32)
    for kind in "ab":
        steps.run(kind)
    steps.run("a", times=1)
    steps.run("c", times=2)
    assert steps.made == ["a", "b", "c"] and steps.kept == 2
    assert steps.ran.count("b") == 3, "a recording that goes may be running still"
    steps.run("a", times=1)
    assert steps.made == ["a", "b", "c"], "b went"
    steps.run("b", times=1)
    assert steps.made == ["a", "b", "c", "b"]


def test_memory_that_contexts_take_counts_too():
    steps, taken = Steps(0), []

    def run(kind):
        def make():
            taken.append(kind)
            steps.driver.total -= 16 * MIB  # a context, which nobody gives back here
            return RecordedStep(lambda: steps.driver.run(steps.device.compute, lambda: None), {})

        steps.steps.run(kind, make)

    for kind in range(6):
        run(kind)
    for kind in range(2, 6):
        run(kind)
    assert taken == list(range(6)), "four of 16 MiB fit into 64"
    run(1)
    assert taken[-1] == 1


def test_memory_that_others_give_back_meanwhile_is_no_debt():
    steps = Steps(0)

    def make():
        steps.driver.total += 512 * MIB
        return RecordedStep(lambda: steps.driver.run(steps.device.compute, lambda: None), {})

    steps.steps.run("a", make)
    for kind in range(20):
        steps.run(kind)
    assert steps.kept == 20


def test_steps_that_take_nothing_are_bounded_by_their_number(monkeypatch):
    monkeypatch.setattr(recorded_steps, "MOST", 3)
    steps = Steps(0)
    for kind in range(5):
        steps.run(kind)
    assert steps.kept == 3
