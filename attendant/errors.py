"""Every error that Attendant raises on purpose, one class for each way of being wrong.

    AttendantError               a failure: exit status 1
    ├── UserError                a mistake in what was given: exit status 2
    │   ├── ConfigError          a configuration value that no model or stage can have
    │   ├── InputError           a tensor, image or text that the model cannot take
    │   ├── UnknownNameError     a model, preset or task that does not exist
    │   ├── ArtefactError        a file that is missing, truncated or not what its manifest says
    │   └── OutputError          a place that cannot be written
    ├── ExportError              a graph that does not keep what was asked of it
    ├── ParityError              two runners that disagree beyond the tolerance
    ├── MachineError             a machine that lacks something the work needs
    ├── UnfinishedError          a request that gets no answer, or no whole one, through no fault of its own
    │   ├── BusyError            too many others wait already
    │   │   └── LoadingError     what would answer it is being started anew
    │   ├── LostError            what was to answer it has ended
    │   ├── DeadlineError        its time is over
    │   └── CancelledError       it was cancelled
    └── ServerError              a server that refused, failed or cannot be reached
        ├── TemplateError        a chat template that fails, whatever the server does
        ├── LateError            it said nothing for too long
        └── UnreachableError     nothing answers at the address, or what answers cannot work

An error is a record: ``code``, ``param``, ``expected``, ``found`` and ``remedy``, which travels from a server to its
clients as JSON. The message is made of it, for people alone: nothing parses it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

MOST_STATUS_BYTES = 6000


class AttendantError(Exception):
    """A failure that carries what was expected, what was found and what to do.

    Attributes:
        exit_status: the status that a command line ends with.
        code: what kind of failure it is, for programs.
        param: which parameter of a request is meant; empty if none is.
    """

    exit_status = 1
    code = "failed"

    def __init__(self, expected: str, found: str, remedy: str, *, param: str = "", message: str = "") -> None:
        self.expected, self.found, self.remedy, self.param = expected, found, remedy, param
        super().__init__(message or f"expected {expected}; found {found}; {remedy}")

    def __reduce__(self) -> tuple[Any, tuple[dict[str, str]]]:
        return error_from_json, (self.to_json(),)  # so that it crosses process boundaries

    def to_json(self) -> dict[str, str]:
        fields = {name: getattr(self, name) for name in ("code", "param", "expected", "found", "remedy")}
        return {**fields, "message": str(self)}


def error_from_json(record: Mapping[str, Any]) -> AttendantError:
    """The error whose record it is; a :class:`ServerError` where the code is not known here."""
    kinds = {kind.code: kind for kind in _kinds(AttendantError)}
    kind = kinds.get(str(record.get("code")), ServerError)
    expected, found, remedy, param, message = (
        str(record.get(name, "")) for name in ("expected", "found", "remedy", "param", "message")
    )
    return kind(expected, found, remedy, param=param, message=message)


def status_message(error: Exception) -> str:
    """An error as a status of gRPC carries it: the JSON of its record, or its text.

    Its texts may repeat a request, and gRPC gives a call up whose trailers have more than 8 KiB, in which it writes
    each byte that is no printable ASCII as three: they are cut.
    """
    if not isinstance(error, AttendantError):
        return _cut(str(error), MOST_STATUS_BYTES)
    record = error.to_json()
    shares = {name: MOST_STATUS_BYTES * (2 if name == "message" else 1) // (len(record) + 1) for name in record}
    return json.dumps({name: _cut(text, shares[name]) for name, text in record.items()}, ensure_ascii=False)


def _cut(text: str, most: int) -> str:
    if 12 * len(text) <= most:
        return text
    left = most
    for place, character in enumerate(text):
        said = json.dumps(character, ensure_ascii=False)[1:-1]
        left -= max(map(_bytes_in_trailers, (character, said)))  # as it is, or within JSON
        if left < 0:
            return text[:place] + " …"
    return text


def _bytes_in_trailers(text: str) -> int:
    data = text.encode("utf-8", "surrogatepass")
    return sum(1 if 32 <= byte < 127 and byte != ord("%") else 3 for byte in data)


def _kinds(kind: type[AttendantError]) -> Iterator[type[AttendantError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _kinds(child)


class UserError(AttendantError):
    """A mistake in what the user gave."""

    exit_status = 2
    code = "mistake"


class ConfigError(UserError):
    """A configuration value that no model or stage can have."""

    code = "invalid_config"


class InputError(UserError):
    """A tensor, image or text that the model cannot take."""

    code = "invalid_value"


class UnknownNameError(UserError):
    """A model, preset or task that does not exist."""

    code = "model_not_found"


@contextmanager
def of_param(param: str) -> Iterator[None]:
    """Let errors that name no parameter of a request name this one."""
    try:
        yield
    except AttendantError as error:
        error.param = error.param or param
        raise


def unknown_name(kind: str, name: object, known: Iterable[str], remedy: str) -> UnknownNameError:
    """The error for a name that none of those known is, with the one that may have been meant.

    Args:
        kind: what the name is of: ``model``.
        name: what was given.
        known: every name of the kind.
        remedy: what to do where none is near.
    """
    names = sorted(known)
    near = get_close_matches(str(name), names, n=1)
    hint = f"did you mean {near[0]!r}? {remedy}" if near else remedy
    return UnknownNameError(
        f"a {kind}, one of {names}", repr(name), remedy, message=f"unknown {kind} {str(name)[:100]!r}; {hint}"
    )


class ArtefactError(UserError):
    """A file that is missing, truncated or not what its manifest says."""

    code = "invalid_artefact"


class OutputError(UserError):
    """A place that cannot be written."""

    code = "output_refused"


class ExportError(AttendantError):
    """A graph that does not keep what was asked of it."""

    code = "export_failed"


class ParityError(AttendantError):
    """Two runners that disagree beyond the tolerance."""

    code = "parity_failed"


class MachineError(AttendantError):
    """A machine that lacks something the work needs."""

    code = "machine_unfit"


class UnfinishedError(AttendantError):
    """A request that gets no answer, or no whole one, through no fault of its own."""

    code = "unfinished"


class BusyError(UnfinishedError):
    """A request that finds too many others waiting."""

    code = "queue_full"


class LoadingError(BusyError):
    """A request that finds its model's engine being started anew."""

    code = "engine_loading"


class LostError(UnfinishedError):
    """A request whose engine ended while it had it; not sent again, as it may be what ended it."""

    code = "engine_lost"


class DeadlineError(UnfinishedError):
    """A request whose time is over."""

    code = "deadline_exceeded"


class CancelledError(UnfinishedError):
    """A request that was cancelled."""

    code = "cancelled"


class ServerError(AttendantError):
    """A server that refused, failed or cannot be reached."""

    code = "server_failed"


class TemplateError(ServerError):
    """A chat template that fails, whatever the server does."""

    code = "template_failed"


class LateError(ServerError):
    """A server that said nothing for too long."""

    code = "server_silent"


class UnreachableError(ServerError):
    """Nothing answers at the address, or what answers cannot work."""

    code = "server_unreachable"
