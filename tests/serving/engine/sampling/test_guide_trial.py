"""Guides of a few kB that llguidance compiles for long, or into much memory."""

import errno
import json
import os
import signal
import time
from multiprocessing.connection import Connection

import pytest

from attendant.errors import InputError, LostError
from attendant.sampling_params import Structure
from serving.engine.sampling import guide_trial
from serving.engine.sampling.guide_trial import GuideTrial


def regex(text):
    return Structure(kind="regex", text=text)


def schema(value):
    return Structure(kind="json_schema", text=json.dumps(value))


@pytest.fixture(scope="module")
def trial():
    return GuideTrial()


@pytest.mark.parametrize(
    "guide",
    [
        regex("[a-z]{1,200}"),
        regex("("),  # compiling it says what is wrong
        schema({"type": "object", "properties": {f"p{number}": {"type": "integer"} for number in range(200)}}),
        Structure(kind="json_object", text=""),
    ],
)
def test_what_is_cheap_is_let_through(trial, guide):
    trial.require_cheap(guide)


@pytest.mark.planted
@pytest.mark.parametrize(
    "guide",
    [
        regex(".*" * 20_000),
        regex(r"\w*" * 4000),
        schema({"type": "string", "allOf": [{"pattern": ".*" * 300 + hex(number)} for number in range(90)]}),
        schema({"type": "object", "required": "🙂" * 700}),  # llguidance fails while it says what is wrong
        schema({"type": "array", "prefixItems": [{"type": "integer", "multipleOf": 900 + n} for n in range(1000)]}),
    ],
    ids=["stars", "words", "patterns", "message", "multiples"],
)
def test_what_is_not_is_refused_and_the_next_is_tried(trial, guide):
    with pytest.raises(InputError, match="simplify the guide"):
        trial.require_cheap(guide)
    trial.require_cheap(regex("a"))


def test_one_that_stands_still_holds_the_next_for_a_moment_alone(trial):
    began_s = time.monotonic()
    with pytest.raises(InputError, match="simplify the guide"):
        trial.require_cheap(schema({"type": "object", "required": "🙂" * 700}))
    assert time.monotonic() - began_s < guide_trial.LONGEST_S / 2


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_trial_whose_process_is_killed_or_stands_still_is_made_in_another(trial, monkeypatch, number):
    trial.require_cheap(regex("a"))
    (process, _) = trial._end.peek()[2]
    os.kill(process.pid, number)
    if number == signal.SIGSTOP:
        asked, poll = [], Connection.poll
        monkeypatch.setattr(
            Connection, "poll", lambda one, time_s: poll(one, time_s if asked.append(1) or asked[1:] else 0.1)
        )
    trial.require_cheap(regex("a"))
    assert process.poll() is not None


def test_where_no_process_can_try_it_the_request_is_lost_and_is_no_mistake(trial, monkeypatch):
    monkeypatch.setattr(guide_trial, "start_python", no_process)
    monkeypatch.setattr(trial, "_connection", None)
    with pytest.raises(LostError):
        trial.require_cheap(regex("a"))


def no_process(*_):
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
