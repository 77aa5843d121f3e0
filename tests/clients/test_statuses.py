"""What tritonserver 2.51 says, and the errors that it stands for."""

import pytest

from attendant.errors import (
    BusyError,
    DeadlineError,
    InputError,
    ServerError,
    UnknownNameError,
    UnreachableError,
)
from clients.statuses import error_from

FULL = "expected fewer than 256 waiting requests; found a full line; try again later"
LATE = "expected an answer within 50 ms, the request's deadline; found more to say; allow more time"
REFUSED = "expected max_tokens from 1 to 31; found 99; ask for fewer tokens, or leave max_tokens out"


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        ("", f"INVALID_ARG: {REFUSED}", InputError),
        ("StatusCode.INVALID_ARGUMENT", REFUSED, InputError),
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
        ("", f"UNAVAILABLE: {FULL}", BusyError),
        ("StatusCode.UNAVAILABLE", FULL, BusyError),
        ("", f"DEADLINE_EXCEEDED: {LATE}", DeadlineError),
        ("StatusCode.DEADLINE_EXCEEDED", "Deadline Exceeded", DeadlineError),
        ("StatusCode.UNAVAILABLE", "failed to connect to all addresses; last error: refused", UnreachableError),
        ("StatusCode.UNAVAILABLE", "Server exiting", UnreachableError),
        ("StatusCode.UNAVAILABLE", "Server not ready", UnreachableError),
        ("StatusCode.UNAVAILABLE", "Socket closed", UnreachableError),
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


@pytest.mark.parametrize(
    ("code", "text"), [("INVALID_ARG", REFUSED), ("UNAVAILABLE", FULL), ("DEADLINE_EXCEEDED", LATE)]
)
def test_an_error_of_ours_comes_out_as_it_was_raised(code, text):
    assert str(error_from("", f"{code}: {text}", "lm", "host:8001")) == text


def test_an_error_of_others_names_the_model_and_says_what_they_said():
    error = error_from("StatusCode.INTERNAL", "failed to allocate", "lm", "host:8001")
    assert "'lm'" in error.expected and error.found == "StatusCode.INTERNAL failed to allocate"
