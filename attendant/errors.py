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
    │   ├── DeadlineError        its time is over
    │   └── CancelledError       it was taken back
    └── ServerError              a server that refused, failed or cannot be reached
        ├── LateError            it said nothing for too long
        └── UnreachableError     nothing answers at the address, or what answers cannot work

A message has three parts: what was expected, what was found, and what to do about it.
"""

from __future__ import annotations


class AttendantError(Exception):
    """A failure that carries what was expected, what was found and what to do.

    Attributes:
        exit_status: the status that a command line ends with.
    """

    exit_status = 1

    def __init__(self, expected: str, found: str, remedy: str) -> None:
        self.expected, self.found, self.remedy = expected, found, remedy
        super().__init__(f"expected {expected}; found {found}; {remedy}")

    def __reduce__(self) -> tuple[type[AttendantError], tuple[str, str, str]]:
        return type(self), (self.expected, self.found, self.remedy)  # so that it crosses process boundaries


class UserError(AttendantError):
    """A mistake in what the user gave."""

    exit_status = 2


class ConfigError(UserError):
    """A configuration value that no model or stage can have."""


class InputError(UserError):
    """A tensor, image or text that the model cannot take."""


class UnknownNameError(UserError):
    """A model, preset or task that does not exist."""


class ArtefactError(UserError):
    """A file that is missing, truncated or not what its manifest says."""


class OutputError(UserError):
    """A place that cannot be written."""


class ExportError(AttendantError):
    """A graph that does not keep what was asked of it."""


class ParityError(AttendantError):
    """Two runners that disagree beyond the tolerance."""


class MachineError(AttendantError):
    """A machine that lacks something the work needs."""


class UnfinishedError(AttendantError):
    """A request that gets no answer, or no whole one, through no fault of its own."""


class BusyError(UnfinishedError):
    """A request that finds too many others waiting."""


class DeadlineError(UnfinishedError):
    """A request whose time is over."""


class CancelledError(UnfinishedError):
    """A request that was taken back."""


class ServerError(AttendantError):
    """A server that refused, failed or cannot be reached."""


class LateError(ServerError):
    """A server that said nothing for too long."""


class UnreachableError(ServerError):
    """Nothing answers at the address, or what answers cannot work."""
