"""The checker believes a true history, and finds a lie of each kind in it."""

import json

import pytest

from benchmarks.chaos.checker import TAKEN_S, check
from benchmarks.chaos.history import History, HistoryWriter, read_events
from benchmarks.chaos.report import failed_cells, page, summarise
from tests.benchmarks.chaos.histories import true_history
from tests.benchmarks.chaos.lies import LIES


def rules(events):
    return {violation.rule for violation in check(History.of(events))}


def test_nothing_is_wrong_with_a_true_history():
    assert check(History.of(true_history())) == []


@pytest.mark.planted
@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_found_and_called_by_its_name(lie):
    tell, rule = LIES[lie]
    assert rule in rules(tell(true_history()))


def test_what_a_scenario_allows_is_no_violation():
    cut = LIES["an end without an error"][0](true_history(may_cut=True))
    assert "lost" not in rules(cut)
    silent = LIES["six seconds of silence"][0](true_history(silence_s=7.0, ended_s=None))
    assert rules(silent) == set()


@pytest.mark.planted
def test_a_process_that_had_to_live_and_an_accepted_request_that_failed_are_found():
    assert rules(true_history(same_processes=True)) == {"process died"}
    for ahead_s in (0.0, 2 * TAKEN_S):
        events = true_history(complete=True)
        for event in events:  # the stream that is cut off began a little before the fault
            if event["kind"] == "sent" and event["request"] == "r4":
                event["at"] -= ahead_s
        assert ("failed" in rules(events)) == bool(ahead_s)


@pytest.mark.planted
def test_an_error_of_another_kind_than_the_scenarios_is_found():
    assert rules(true_history(codes=["queue_full"])) == {"wrong code"}


@pytest.mark.planted
@pytest.mark.parametrize(("status", "after_s", "wrong"), [(0, 1.0, False), (1, 1.0, True), (0, 9.0, True)])
def test_a_server_that_is_to_end_ends_in_time_and_with_its_status(status, after_s, wrong):
    events = true_history(exit_status=0, exit_s=8.0, back_s=None)
    injected = next(one["at"] for one in events if one["kind"] == "fault")
    events.append({"kind": "exit", "at": injected + after_s, "status": status, "asked": False, "round": 0})
    assert ("ended" in rules(events)) is wrong


@pytest.mark.planted
def test_a_server_that_is_to_end_and_does_not_is_found():
    assert rules(true_history(exit_status=0)) == {"ended"}


@pytest.mark.planted
def test_a_bare_stream_of_a_dead_worker_may_be_silent_where_a_scenario_says_so_and_no_other_may():
    for bare, rule in ((True, set()), (False, {"lost", "silent", "late end"})):
        events = true_history(bare_may_be_silent=True)
        for event in events:  # the stream that the fault cuts off
            if event["kind"] == "sent" and event["request"] == "r4":
                event["bare"] = bare
            if event["kind"] == "end" and event["request"] == "r4":
                event.update(how="silent", at=event["at"] + 12)
        assert rules(events) == rule


def test_a_violation_fails_the_cell_of_its_traffic_alone():
    history = History.of(LIES["a wrong label"][0](true_history()))
    cells = failed_cells(history, check(history))
    assert {cell for cell, found in cells.items() if found} == {"worker-killed@stdlib-lm/unary"}


def test_a_page_counts_cells_and_names_what_was_not_kept():
    found = summarise(History.of(LIES["a token twice"][0](true_history())), {"clock-back": "no gcc"}, 12.0)
    assert (found["cells"], found["passed"]) == (3, 2)
    text = "\n".join(page(json.loads(json.dumps(found))))
    assert "**2 of 3 cells" in text and "duplicate token" in text and "clock-back: no gcc" in text


def test_a_history_that_is_written_is_read_again(tmp_path):
    writer = HistoryWriter(tmp_path / "run" / "history.jsonl")
    writer.round = 3
    sent = writer.record("sent", request="r1", traffic="unary", model="digits-vit", input="image 0")
    assert writer.in_flight == 1
    writer.record("end", request="r1", how="ok", code="", message="")
    writer.close()
    assert writer.in_flight == 0 and writer.answered == {("unary", "digits-vit"): sent}
    assert read_events(writer.path) == writer.events
    assert History.of(read_events(writer.path)).requests["r1"].sent["round"] == 3
