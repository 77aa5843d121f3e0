"""The order in which a GPU is timed, over events that write down when they are recorded."""

from contextlib import nullcontext

import torch

from benchmarks.gpu import clock


def test_a_call_stands_between_its_events_behind_a_wait_that_is_longer_than_queueing_it(monkeypatch):
    said = []

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            said.append("event")

        def elapsed_time(self, end):
            return 3.0

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: said.append(cycles))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: said.append("synchronise"))
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(clock, "FLUSHED_BYTES", 64)
    assert clock._on_gpu(lambda: said.append("call"), torch.device("cpu"), timed=2) == 3.0
    warm, asked, timed = said[:5], said[5:8], said[8:]
    assert warm == ["call"] * 5 and asked == ["synchronise", "call", "synchronise"]
    cycles = timed[0]
    assert timed == [cycles, "event", "call", "event"] * 2 + ["synchronise"]
    assert cycles >= 2 * clock._LEAST_AHEAD_S * clock._CYCLES_A_SECOND


def test_roofs_are_bytes_read_and_written_and_multiplications_and_additions(monkeypatch):
    monkeypatch.setattr(clock, "milliseconds", lambda call, device: call() is None or 2.0)
    found = clock.roofs(torch.device("cpu"), copied=1000, side=10)
    assert found == clock.Roofs(bytes_per_second=1e6, flops=1e6)
