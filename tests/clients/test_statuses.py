"""What tritonserver 2.51 says, and the errors that it stands for."""

import json

import pytest

from attendant.errors import (
    ArtefactError,
    BusyError,
    DeadlineError,
    InputError,
    ServerError,
    UnknownNameError,
    UnreachableError,
)
from clients.statuses import error_from

REFUSED = InputError("max_tokens from 1 to 31", "99", "ask for fewer tokens", param="max_tokens")
FULL = BusyError("fewer than 256 requests", "256", "retry later", message="queue full: 256 requests waiting")
LATE = DeadlineError("an answer within 50 ms", "none", "allow more time", param="deadline_ms")


def sent(error):
    """What a model's body sends."""
    return json.dumps(error.to_json(), ensure_ascii=False)


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        ("", sent(REFUSED), InputError),
        ("StatusCode.INVALID_ARGUMENT", sent(REFUSED), InputError),
        ("", f"[request id: 7f] {sent(REFUSED)}", InputError),
        ("", '{"code": "of a later version", "expected": "a", "found": "b"}', ServerError),
        ("", sent(ArtefactError("a graph", "none", "export it again")), ServerError),
        ("", "[1, 2]", ServerError),
        ("", '{"a": ' * 100_000, ServerError),
        ("", '{"expected": "no code"}', ServerError),
        ("", "[request id: 7f] inference request batch-size must be <= 1 for 'lm'", InputError),
        (
            "",
            "[request id: 7f] unexpected shape for input 'seed' for model 'lm'. Expected [-1,1], got [1]. NOTE: …",
            InputError,
        ),
        ("", "unexpected inference input 'tempreature' for model 'lm'", InputError),
        (
            "",
            "[request id: 7f] inference input 'seed' data-type is 'INT32', but model 'lm' expects 'UINT64'",
            InputError,
        ),
        ("", sent(FULL), BusyError),
        ("StatusCode.UNAVAILABLE", sent(FULL), BusyError),
        ("", sent(LATE), DeadlineError),
        ("StatusCode.DEADLINE_EXCEEDED", "Deadline Exceeded", DeadlineError),
        ("StatusCode.UNAVAILABLE", "failed to connect to all addresses; last error: refused", UnreachableError),
        ("StatusCode.UNAVAILABLE", "Server exiting", UnreachableError),
        (
            "",
            "Server is stopping, scheduler for model has stopped accepting new inference requests",
            UnreachableError,
        ),
        ("StatusCode.UNAVAILABLE", "Server not ready", UnreachableError),
        ("StatusCode.UNAVAILABLE", "Socket closed", UnreachableError),
        ("StatusCode.INTERNAL", "Internal error from Core", UnreachableError),
        ("StatusCode.INTERNAL", "Internal error", ServerError),
        ("StatusCode.CANCELLED", "CANCELLED", UnreachableError),
        ("StatusCode.NOT_FOUND", "Request for unknown model: 'lm' has no available versions", UnreachableError),
        ("", "Request for unknown model: 'lm' has no available versions", UnreachableError),
        ("", "Request for unknown model: 'lm' is not found", UnknownNameError),
        ("StatusCode.NOT_FOUND", "Request for unknown model: 'lm' is not found", UnknownNameError),
        ("StatusCode.INTERNAL", "Stub process 'lm_0' is not healthy.", UnreachableError),
        ("", "expected a step of the engine; found an error; see the server's log", ServerError),
    ],
)
def test_a_status_and_a_message_are_the_error_that_they_stand_for(status, message, kind):
    assert type(error_from(status, message, "lm", "host:8001")) is kind


@pytest.mark.parametrize("error", [REFUSED, FULL, LATE], ids=lambda error: error.code)
def test_an_error_of_ours_comes_out_as_it_was_raised(error):
    found = error_from("", f"[request id: 7f] {sent(error)}", "lm", "host:8001")
    assert (type(found), found.to_json()) == (type(error), error.to_json())


def test_an_error_of_others_names_the_model_and_says_what_they_said():
    error = error_from("StatusCode.INTERNAL", "failed to allocate", "lm", "host:8001")
    assert "'lm'" in error.expected and error.found == "StatusCode.INTERNAL failed to allocate"


@pytest.mark.parametrize(
    "name",
    [
        "has no available versions",
        "Server is stopping",
        "Stub process a is not healthy",
        "a' is restricted, expecting header",
    ],
)
def test_the_name_of_a_model_is_none_of_the_servers_words(name):
    error = error_from("NOT_FOUND", f"Request for unknown model: '{name}' is not found", name, "a:1")
    assert isinstance(error, UnknownNameError)
