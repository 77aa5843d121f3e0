"""The edge of every command line: one line on standard error, and the exit status the error states."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import tyro

from attendant.errors import AttendantError, MachineError
from attendant.extras import provider_of

Verb = Callable[..., int]
FAILURE_STATUS = 1
INTERRUPTED_STATUS = 130
_STYLE = (tyro.conf.PositionalMetavarFromFieldName, tyro.conf.FlagCreatePairsOff)


def run(program: str, description: str, verbs: dict[str, Verb], arguments: Sequence[str]) -> NoReturn:
    """Run one verb and leave the process with its exit status.

    Args:
        program: what the user typed before the verb, for instance ``python -m export``.
        description: one paragraph for ``--help``.
        verbs: the functions behind the verbs; each returns an exit status.
        arguments: the words after the program; ``--verbose`` anywhere shows tracebacks.
    """
    verbose = "--verbose" in arguments
    words = [word for word in arguments if word != "--verbose"]
    command = _subcommands(program, description, verbs, words)
    sys.exit(_status(command, verbose))


def _subcommands(program: str, description: str, verbs: dict[str, Verb], words: list[str]) -> Callable[[], int]:
    def command() -> int:
        epilogue = f"{description}\n\nAdd --verbose to any verb to see the traceback of an error."
        status: Any = tyro.extras.subcommand_cli_from_dict(
            verbs, prog=program, description=epilogue, args=words, config=_STYLE
        )
        return int(status)

    return command


def _status(command: Callable[[], int], verbose: bool) -> int:
    try:
        status = command()
        sys.stdout.flush()  # a reader that left is noticed here and not while Python ends
        return status
    except AttendantError as error:
        return _tell(error, error.exit_status, verbose)
    except KeyboardInterrupt:
        return INTERRUPTED_STATUS
    except BrokenPipeError:
        # The reader left: what is still buffered goes nowhere, so that Python ends without a second error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return FAILURE_STATUS
    except ModuleNotFoundError as error:
        return _tell(_lacking(error), FAILURE_STATUS, verbose)
    except Exception as error:
        return _tell(error, FAILURE_STATUS, verbose)


def _lacking(error: ModuleNotFoundError) -> Exception:
    module = error.name or ""
    if (extra := provider_of(module)) is None:
        return error
    remedy = f"run python -m pip install --constraint constraints.txt --editable '.[{extra}]'"
    lacking = MachineError(f"the module {module!r}, of the extra {extra!r}", "it not installed", remedy)
    lacking.__cause__ = error
    return lacking


def _tell(error: Exception, status: int, verbose: bool) -> int:
    if verbose:
        traceback.print_exception(error)
    kind = "error" if isinstance(error, AttendantError) else f"unexpected {type(error).__name__}"
    sys.stderr.write(f"{kind}: {' '.join(str(error).split())}\n")
    return status
