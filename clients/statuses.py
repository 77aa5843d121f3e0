"""What a server says of a failure, a status and a message → the error that it is.

Models of ours send the record of the error as JSON (:func:`attendant.errors.error_from_json`). What Triton itself
refuses has no record:

    UNAVAILABLE, CANCELLED, no available versions    UnreachableError the server is gone, or going: ask another
    its worker for the model is dead                 UnreachableError likewise
    its certificate, or ours, is refused             UnreachableError with what is wrong with it
    DEADLINE_EXCEEDED                                DeadlineError    the request's own time is over
    NOT_FOUND, unknown model                         UnknownNameError
    INVALID_ARG, Triton's own checks                 InputError       correct the request
    anything else                                    ServerError

A stream drops the status, so Triton's own checks of a request's tensors can only be known by their wording there.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attendant.errors import (
    AttendantError,
    DeadlineError,
    InputError,
    LateError,
    ServerError,
    UnfinishedError,
    UnknownNameError,
    UnreachableError,
    error_from_json,
)
from clients.tls import handshake_error

START = "`attendant serve`"
CUT_TEXT = "incomplete string data"
"""What Triton's Python backend says to all requests of a batch where the text of one ends within itself."""
WHOLE_TEXTS = "a batch of texts that are whole"
"""What is expected by the error that stands for it."""
_OF_A_REQUEST = (InputError, UnfinishedError, UnknownNameError)  # what else a server sends is its own failure
_REQUEST_ID = re.compile(r"^\[request id: [^]]*\] ")
_UNREACHABLE = re.compile("failed to connect|errors resolving", re.IGNORECASE)
_BROKEN = "Internal error from Core"
"""What gRPC itself says of some connections that break."""
_DEAD = re.compile(r"[Ss]tub process .*is not healthy")
_RESTRICTED = re.compile(r"is restricted, expecting header")
_STOPPING = re.compile(r"Server is stopping|Server exiting|stopped accepting new inference requests")
_REFUSED = re.compile(r"unexpected shape for input|inference input|inference request|expected \d+ inputs")


def error_from(status: str, message: str, model: str, server: str) -> AttendantError:
    """The error that a server sent.

    Args:
        status: gRPC's or Triton's; empty on a stream.
        message: in words.
        model: of the request; empty if there was none.
        server: its address.
    """
    text = _REQUEST_ID.sub("", message)
    if (record := _record_of(text)) is not None:
        error = error_from_json(record)
        return error if isinstance(error, _OF_A_REQUEST) else ServerError(error.expected, error.found, error.remedy)
    if "UNAVAILABLE" in status and _UNREACHABLE.search(text):
        if (fault := handshake_error(text, server)) is not None:
            return fault
        return UnreachableError(
            f"a Triton server at {server}",
            "no answer",
            f"start it: {START}",
            message=f"no Triton server answers at {server}; start one: {START}",
        )
    words = text.replace(f"'{model}'", "")  # a name may be any of these
    if _RESTRICTED.search(words):
        return ServerError(
            "the server's admin key", text, "name its file with --admin-key-file or target.admin_key_file"
        )
    if _STOPPING.search(words):
        return UnreachableError(f"a server that goes on at {server}", text, "send the request again")
    if _DEAD.search(words):
        return UnreachableError(f"a worker of {model!r} that lives at {server}", text, "restart that server")
    if "UNAVAILABLE" in status or "CANCELLED" in status or "no available versions" in words or text == _BROKEN:
        return UnreachableError(f"a Triton server at {server} that takes requests", text, "ask another, or later")
    if "DEADLINE_EXCEEDED" in status:
        return DeadlineError("an answer in time", text, "allow more time")
    if "NOT_FOUND" in status or "unknown model" in words:
        return UnknownNameError(
            f"a model that {server} serves",
            repr(model),
            "list them with `attendant health`",
            message=f"{server} serves no model {model!r}; list its models with `attendant health`",
        )
    if "INVALID_ARG" in status and CUT_TEXT in words:
        return InputError(WHOLE_TEXTS, text, "correct the request")
    if "INVALID_ARG" in status or (not status and _REFUSED.search(words)):
        return InputError(f"a request that {model!r} takes", text, "correct the request")
    return ServerError(f"an answer from {model or server!r}", f"{status} {text}".strip(), "look at the server's log")


def _record_of(text: str) -> dict[str, Any] | None:
    try:
        record = json.loads(text) if text.startswith("{") else None
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and "code" in record else None


def late(who: str, timeout_s: float) -> LateError:
    """The error of an answer of a model or a server that did not come in time."""
    remedy = "see `attendant health`; a dead worker answers nothing"
    return LateError(f"an answer from {who!r} within {timeout_s:g} s", "none", remedy)


def require_message(message: Any, server: str) -> Any:
    """What a server answered; gRPC hands over None in the place of bytes that it cannot read.

    Raises:
        ServerError: they were no message.
    """
    if message is None:
        raise ServerError(f"a message of Triton's from {server}", "bytes that are none", "look at what serves there")
    return message


@contextmanager
def reading(model: str, server: str = "") -> Iterator[None]:
    """Let what cannot be read of a server's answer be that server's failure.

    Args:
        model: that answered.
        server: its address.

    Raises:
        ServerError: the block, which does nothing but read, failed.
    """
    try:
        yield
    except AttendantError:
        raise
    except Exception as error:  # whatever a reader says of bytes that are no answer
        expected = f"an answer of model {model!r} as Attendant lays models out"
        raise ServerError(
            expected, repr(error)[:200], f"look at what serves it at {server or 'that address'}"
        ) from error
