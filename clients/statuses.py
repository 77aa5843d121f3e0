"""What a server says of a failure, a status and a message → the error that it is.

    INVALID_ARG, Triton's own checks                 InputError       correct the request
    UNAVAILABLE, the model's line is full            BusyError        the same request may fit later
    UNAVAILABLE otherwise, no available versions     UnreachableError the server is gone, or going: ask another
    its worker for the model is dead                 UnreachableError likewise
    DEADLINE_EXCEEDED                                DeadlineError    the request's own time is over
    NOT_FOUND, unknown model                         UnknownNameError
    anything else                                    ServerError

A stream drops the status: our backends begin the message with it (serving/triton/backends/triton_api.py); Triton's own
checks of a request's tensors can only be known by their wording.
"""

from __future__ import annotations

import re

from attendant.errors import (
    AttendantError,
    BusyError,
    DeadlineError,
    InputError,
    ServerError,
    UnknownNameError,
    UnreachableError,
)

START = "`attendant serve`"
_OURS: dict[str, type[AttendantError]] = {
    "INVALID_ARG": InputError,
    "UNAVAILABLE": BusyError,
    "DEADLINE_EXCEEDED": DeadlineError,
}
_CODE = re.compile(rf"^({'|'.join(_OURS)}): ")
_PARTS = re.compile(r"expected (.*?); found (.*); (.*)", re.DOTALL)  # attendant/errors.py
_REQUEST_ID = re.compile(r"^\[request id: [^]]*\] ")
_NOBODY = re.compile("failed to connect|errors resolving", re.IGNORECASE)
_DEAD = re.compile(r"[Ss]tub process .*is not healthy")
_REFUSED = re.compile(r"unexpected shape for input|inference input|inference request|expected \d+ inputs")


def error_from(status: str, message: str, model: str, server: str) -> AttendantError:
    """The error that a server told.

    Args:
        status: gRPC's or Triton's; empty on a stream.
        message: in words.
        model: that was asked; empty if none was.
        server: its address.
    """
    message = _REQUEST_ID.sub("", message)
    said = _CODE.match(message)
    text = _CODE.sub("", message)
    code = said[1] if said else next((name for name in _OURS if name in status), "")
    parts = _PARTS.fullmatch(text)
    if code and parts:
        return _OURS[code](*parts.groups())
    if code == "UNAVAILABLE" and _NOBODY.search(text):
        return UnreachableError(f"a Triton server at {server}", "no answer", f"start it: {START}")
    if _DEAD.search(text):
        return UnreachableError(f"a worker of {model!r} that lives at {server}", text, "restart that server")
    if code == "UNAVAILABLE" or "no available versions" in text:
        return UnreachableError(f"a Triton server at {server} that takes requests", text, "ask another, or later")
    if code == "DEADLINE_EXCEEDED":
        return DeadlineError("an answer in time", text, "allow more time")
    if "NOT_FOUND" in status or "unknown model" in text:
        return UnknownNameError(f"a model that {server} serves", repr(model), "list them with `attendant health`")
    if code == "INVALID_ARG" or (not status and _REFUSED.search(text)):
        return InputError(f"a request that {model!r} takes", text, "correct the request")
    return ServerError(f"an answer from {model or server!r}", f"{status} {text}".strip(), "look at the server's log")
