"""Lies about a run: each takes the events of a true history, and returns them with one thing told otherwise."""

from copy import deepcopy

from benchmarks.chaos.history import History


def _streams(events, how="ok"):
    """Requests by gRPC that ended so, with three responses at the least."""
    history = History.of(events)
    return [
        request
        for request in history.requests.values()
        if request.how == how
        and request.sent["round"] >= 0
        and len([one for one in request.responses if len(one.get("tokens") or ()) > 0]) > 2
    ]


def _events_of(events, request, kind):
    return [event for event in events if event["kind"] == kind and event.get("request") == request]


def _lie_about(events, kind, change):
    """A copy in which one event of a whole stream is changed."""
    events = deepcopy(events)
    request = _streams(events)[0].request
    change(events, _events_of(events, request, kind))
    return events


def _round(events):
    return next(event for event in events if event["kind"] == "round")


def _insert_before_finish(events, event):
    place = next(number for number, one in enumerate(events) if one["kind"] == "finished")
    event.setdefault("at", events[place]["at"])
    events.insert(place, event)


def wrong_token(events):
    return _lie_about(events, "response", lambda _, parts: parts[1]["tokens"].__setitem__(0, 999_999))


def duplicate_token(events):
    return _lie_about(events, "response", lambda _, parts: parts[1]["tokens"].insert(0, parts[1]["tokens"][0]))


def missing_token(events):
    return _lie_about(events, "response", lambda _, parts: parts[1]["tokens"].pop(0))


def missing_response(events):
    return _lie_about(events, "response", lambda all_events, parts: all_events.remove(parts[1]))


def exchanged_responses(events):
    def exchange(_, parts):
        parts[0]["tokens"], parts[1]["tokens"] = parts[1]["tokens"] + [7], parts[0]["tokens"]

    return _lie_about(events, "response", exchange)


def missing_last_response(events):
    return _lie_about(events, "response", lambda all_events, parts: all_events.remove(parts[-1]))


def wrong_label(events):
    events = deepcopy(events)
    part = next(one for one in events if one["kind"] == "response" and one.get("id"))
    part["tokens"] = [part["tokens"][0] + 1]
    return events


def wrong_text(events):
    events = deepcopy(events)
    part = next(one for one in events if one["kind"] == "response" and one.get("tokens") is None and one.get("text"))
    part["text"] = "?" + part["text"][1:]
    return events


def token_after_end(events):
    def append(all_events, ends):
        part = _events_of(all_events, ends[0]["request"], "response")[-1]
        all_events.insert(all_events.index(ends[0]) + 1, {**part, "at": ends[0]["at"] + 0.01})

    return _lie_about(events, "end", append)


def token_after_final(events):
    return _lie_about(events, "response", lambda _, parts: parts[-1].update(late=True))


def second_end(events):
    return _lie_about(events, "end", lambda all_events, ends: all_events.append({**ends[0], "how": "error"}))


def never_sent(events):
    return _lie_about(events, "sent", lambda all_events, sent: all_events.remove(sent[0]))


def answer_of_another(events):
    events = deepcopy(events)
    next(one for one in events if one["kind"] == "response" and one.get("id"))["id"] = "r-of-another"
    return events


def lost(events):
    return _lie_about(events, "end", lambda all_events, ends: all_events.remove(ends[0]))


def cut(events):
    return _lie_about(events, "end", lambda _, ends: ends[0].update(how="cut"))


def silent(events):
    return _lie_about(events, "end", lambda _, ends: ends[0].update(at=ends[0]["at"] + 6))


def failed_elsewhere(events):
    events = deepcopy(events)
    target, others = _round(events)["target"], set()
    for event in events:
        if event["kind"] == "sent" and event["round"] == 0 and event["model"] != target:
            others.add(event["request"])
        if event["kind"] == "end" and event["request"] in others and event["how"] == "ok":
            event.update(how="error", code="server_failed")
            return events
    raise AssertionError("no other model was asked")


def never_back(events):
    events = deepcopy(events)
    target = _round(events)["target"]
    removed = next(one["at"] for one in events if one["kind"] == "fault" and one["phase"] == "removed")
    late = {
        one["request"] for one in events if one["kind"] == "sent" and one["model"] == target and one["at"] > removed
    }
    for event in events:
        if event["kind"] == "end" and event["request"] in late:
            event.update(how="error", code="server_unreachable")
    return events


def late_end(events):
    events = deepcopy(events)
    removed = next(one["at"] for one in events if one["kind"] == "fault" and one["phase"] == "injected")
    target = _round(events)["target"]
    sent = next(one for one in events if one["kind"] == "sent" and one["model"] == target and one["at"] < removed)
    _events_of(events, sent["request"], "end")[0].update(at=removed + 4.9, how="error", code="engine_lost")
    return events


def server_ended(events):
    events = deepcopy(events)
    _insert_before_finish(events, {"kind": "exit", "status": 1, "asked": False, "round": 0})
    return events


def ended_with_a_failure(events):
    events = deepcopy(events)
    _insert_before_finish(events, {"kind": "exit", "status": 1, "asked": True, "round": 0})
    return events


def unanswered(events):
    asked = {one["request"] for one in events if one["kind"] == "sent" and one["traffic"] == "unary"}
    return [one for one in events if one.get("request") not in asked]


def unfinished(events):
    return [one for one in events if one["kind"] != "finished"]


def _left(name, value):
    def lie(events):
        events = deepcopy(events)
        _insert_before_finish(events, {"kind": "leftover", "round": 0, name: [value]})
        return events

    return lie


def _grown(name, growth):
    def lie(events):
        events = deepcopy(events)
        quiet = [one for one in events if one["kind"] == "sample" and one["quiet"]]
        label = next(iter(quiet[-1][name]))
        for sample in quiet[len(quiet) // 2 :]:
            sample[name][label] = sample[name].get(label, 0) + growth
        return events

    return lie


LIES = {
    "a wrong token": (wrong_token, "wrong token"),
    "a token twice": (duplicate_token, "duplicate token"),
    "a token left out": (missing_token, "missing token"),
    "a response left out": (missing_response, "missing token"),
    "responses in another order": (exchanged_responses, "wrong token"),
    "no last response": (missing_last_response, "missing token"),
    "a wrong label": (wrong_label, "wrong token"),
    "a wrong text": (wrong_text, "wrong token"),
    "a token after the end": (token_after_end, "token after end"),
    "a token after the final response": (token_after_final, "token after end"),
    "two ends": (second_end, "token after end"),
    "an answer to nobody": (never_sent, "not sent"),
    "the answer of another": (answer_of_another, "not sent"),
    "no end": (lost, "lost"),
    "an end without an error": (cut, "lost"),
    "six seconds of silence": (silent, "silent"),
    "another model's request that failed": (failed_elsewhere, "failed"),
    "a model that never comes back": (never_back, "not back"),
    "an end that comes late": (late_end, "late end"),
    "a server that ended": (server_ended, "ended"),
    "a server that ended with a failure": (ended_with_a_failure, "ended"),
    "a process left over": (_left("processes", "worker 17"), "left over"),
    "a region left over": (_left("regions", "attendant_1_2_3"), "left over"),
    "a folder left over": (_left("folders", "attendant-server-x"), "left over"),
    "a port left over": (_left("ports", "8001"), "left over"),
    "memory that grows": (_grown("rss_mb", 200.0), "grown"),
    "descriptors that grow": (_grown("descriptors", 60), "grown"),
    "a traffic that was never answered": (unanswered, "untested"),
    "a round that did not finish": (unfinished, "untested"),
}
"""What is told → the lie, and the rule that it breaks."""
