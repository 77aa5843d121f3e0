"""The edge of every command line: verbs and their help, one line for each error, and the exit status it states."""

import ast
import errno
import inspect
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NoReturn, TypeAlias, Union, get_args, get_origin, get_type_hints

import tyro

from attendant.errors import AttendantError, InputError, MachineError, OutputError
from attendant.extras import provider_of
from attendant.folders import FULL_DISK
from attendant.printable import printable
from attendant.standard_streams import open_standard_streams
from attendant.text_bounds import shortened

FAILURE_STATUS = 1
USAGE_STATUS = 2
INTERRUPTED_STATUS = 130
Verb = Callable[..., int]
Verbs: TypeAlias = "Mapping[str, str | Verb | Group]"
_STYLE = (tyro.conf.PositionalMetavarFromFieldName, tyro.conf.FlagCreatePairsOff)
_METAVARS = {str: "TEXT", Path: "PATH", int: "INT", float: "FLOAT"}
_HELP = ("--help", "-h")
_ENDED = {128 + number: number for number in (signal.SIGTERM, signal.SIGHUP)}
_AGAIN_S = 0.2
_NO_PATHS = {errno.ELOOP, errno.ENAMETOOLONG}


@dataclass(frozen=True, slots=True)
class Group:
    """Verbs behind a word: ``attendant models list``.

    Attributes:
        summary: one line for ``--help``.
        verbs: each a function that returns an exit status, or ``module:function``, imported when it is run.
    """

    summary: str
    verbs: Verbs


def run(program: str, description: str, verbs: Verbs, arguments: Sequence[str], distribution: str = "") -> NoReturn:
    """Run one verb and leave the process with its exit status.

    Args:
        program: what the user typed before the verb, for instance ``attendant``.
        description: what ``--help`` says first.
        verbs: what may stand after it.
        arguments: the words after the program; ``--verbose`` anywhere shows tracebacks.
        distribution: whose version ``--version`` prints; no such option if empty.
    """
    open_standard_streams()
    # A caller may have blocked them for its own sake; what it ignores stays ignored.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, children would be gone before we ask how they ended
    for number in _ENDED.values():
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)
    sys.unraisablehook = _end_after_all
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # noqa: TID251  its own lines would stand between ours
    verbose = "--verbose" in arguments
    words = [word for word in arguments if word != "--verbose"]
    if distribution and words == ["--version"]:
        sys.stdout.write(f"{version(distribution)}\n")
        sys.exit(0)
    options = {"--version": "print the version"} if distribution else {}
    sys.exit(_guard(lambda: _dispatch(program, Group(description, verbs), words, options), verbose))


def _end(number: int, frame: object) -> NoReturn:
    """End as an error does, so that no half-written folder stays; the same signal again ends it at once."""
    signal.signal(number, signal.SIG_DFL)
    sys.exit(128 + number)


def _end_after_all(lost: "sys.UnraisableHookArgs") -> None:
    # Python drops what a signal raises within a callback of its own, as an import's: the signal comes again, later.
    error = lost.exc_value
    if isinstance(error, SystemExit) and error.code in _ENDED:
        number = int(_ENDED[error.code])
        signal.signal(number, _end)
    elif isinstance(error, KeyboardInterrupt):
        said = error.args[0] if error.args else None  # a verb's own handler says for which it was raised
        number = said if isinstance(said, int) else signal.SIGINT
    else:
        sys.__unraisablehook__(lost)
        return
    again = threading.Timer(_AGAIN_S, _send_again, [number])
    again.daemon = True
    again.start()


def _send_again(number: int) -> None:
    if signal.getsignal(number) is not signal.SIG_DFL:  # else another came meanwhile, and the verb is ending
        os.kill(os.getpid(), number)


def _dispatch(program: str, group: Group, words: list[str], options: Mapping[str, str]) -> int:
    first = words[0] if words else ""
    if first in _HELP:
        rows = list(_rows(group.verbs, ""))
        rows_of_options = [
            ("-h, --help", "show this, or behind a verb what it takes"),
            ("--verbose", "behind any verb: show the traceback of an error"),
            *options.items(),
        ]
        width = 2 + max(len(name) for name, _ in [*rows, *rows_of_options])
        lines = [
            *(f"usage: {program} [--help] VERB ...", "", group.summary.strip(), "", "verbs:"),
            *(f"  {name:<{width}}{summary}" for name, summary in rows),
            *("", "options:"),
            *(f"  {name:<{width}}{summary}" for name, summary in rows_of_options),
        ]
        sys.stdout.write("\n".join(lines) + "\n")
        return 0
    if first not in group.verbs:
        sys.stderr.write(_unknown(program, group, first))
        return USAGE_STATUS
    verb = group.verbs[first]
    if isinstance(verb, Group):
        return _dispatch(f"{program} {first}", verb, words[1:], {})
    command = _with_verbose(_load(verb))
    return int(tyro.cli(command, prog=f"{program} {first}", args=words[1:], config=_STYLE, registry=_TYPES))


def _unknown(program: str, group: Group, word: str) -> str:
    if not word:
        return f"usage: {program} VERB ...\nerror: no verb; one of {', '.join(group.verbs)}; see `{program} --help`\n"
    near = get_close_matches(word, group.verbs, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"one of {', '.join(group.verbs)};"
    return f"usage: {program} VERB ...\nerror: unknown verb {word!r}; {hint} see `{program} --help`\n"


def _rows(verbs: Verbs, before: str) -> Iterator[tuple[str, str]]:
    for name, verb in verbs.items():
        if isinstance(verb, Group):
            yield from _rows(verb.verbs, f"{before}{name} ")
        else:
            yield f"{before}{name}", _summary(verb)


def _summary(verb: str | Verb) -> str:
    """The first line of a verb's docstring, read without an import: what a verb needs may not be installed."""
    if callable(verb):
        return (verb.__doc__ or "").partition("\n")[0]
    module, _, name = verb.partition(":")
    spec = find_spec(module)
    assert spec is not None and spec.origin is not None, module
    for node in ast.parse(Path(spec.origin).read_bytes()).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return (ast.get_docstring(node) or "").partition("\n")[0]
    raise LookupError(verb)


def _load(verb: str | Verb) -> Verb:
    if callable(verb):
        return verb
    module, _, name = verb.partition(":")
    came = list[int]()

    def postpone(number: int, frame: object) -> None:
        signal.signal(number, signal.default_int_handler)  # a second one ends it at once
        came.append(number)

    # A library whose import is interrupted may raise another error: NumPy an ImportError.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, postpone)
    try:
        function: Verb = getattr(import_module(module), name)
    finally:
        if signal.getsignal(signal.SIGINT) is postpone:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    if came:
        raise KeyboardInterrupt
    return function


def _with_verbose(verb: Verb) -> Verb:
    """The verb with ``--verbose`` among its flags, so that its help shows it; :func:`run` takes it from anywhere."""
    hints = get_type_hints(verb, include_extras=True)
    verbose = Annotated[bool, tyro.conf.arg(help="show the traceback of an error.")]
    parameters = [
        *(one.replace(annotation=hints[one.name]) for one in inspect.signature(verb).parameters.values()),
        inspect.Parameter("verbose", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=verbose),
    ]

    def command(*positional: Any, verbose: bool, **named: Any) -> int:
        return verb(*positional, **named)

    command.__doc__ = verb.__doc__
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


_TYPES = tyro.constructors.ConstructorRegistry()


@_TYPES.primitive_rule
def _optional(info: tyro.constructors.PrimitiveTypeInfo) -> tyro.constructors.PrimitiveConstructorSpec[Any] | None:
    """``T | None``, where None is a flag that is not given: its help shows T alone, and no word stands for None."""
    kinds = [one for one in get_args(info.type) if one is not NoneType]
    if info.type_origin not in (Union, UnionType) or len(kinds) != 1 or len(get_args(info.type)) != 2:
        return None
    (kind,) = kinds
    choices = tuple(map(str, get_args(kind))) if get_origin(kind) is Literal else None
    if choices is None and kind not in _METAVARS:
        return None
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="{" + ",".join(choices) + "}" if choices else _METAVARS[kind],
        instance_from_str=lambda words: words[0] if choices else kind(words[0]),
        is_instance=lambda value: value is None or (value in get_args(kind) if choices else isinstance(value, kind)),
        str_from_instance=lambda value: [str(value)],
        choices=choices,
    )


def _guard(command: Callable[[], int], verbose: bool) -> int:
    try:
        status = command()
        sys.stdout.flush()  # a reader that left is noticed here and not while Python ends
        return status
    except AttendantError as error:
        return _report(error, error.exit_status, verbose)
    except KeyboardInterrupt:
        return INTERRUPTED_STATUS
    except BrokenPipeError:
        # The reader left: what is still buffered goes nowhere, so that Python ends without a second error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return FAILURE_STATUS
    except OSError as error:
        if error.errno not in FULL_DISK:
            return _report(_removed_folder() or _no_path(error) or error, FAILURE_STATUS, verbose)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        full = OutputError("room for what is written", str(error), "free some, or write it elsewhere")
        return _report(full, FAILURE_STATUS, verbose)
    except ModuleNotFoundError as error:
        return _report(_missing_extra(error), FAILURE_STATUS, verbose)
    except Exception as error:
        return _report(_no_path(error.__context__) or error, FAILURE_STATUS, verbose)


def _removed_folder() -> MachineError | None:
    try:
        os.getcwd()  # noqa: PTH109  (Path.cwd is the same, in more words)
    except FileNotFoundError:
        return MachineError("a working directory", "one that was removed", "change into another")
    return None


def _no_path(error: BaseException | None) -> InputError | None:
    # Python 3.11 and 3.12 make a RuntimeError of a loop that they meet while they resolve a path.
    if isinstance(error, OSError) and error.errno in _NO_PATHS:
        found = f"{error.strerror}: {shortened(str(error.filename))}"
        return InputError("paths without loops of links or very long names", found, "name another")
    return None


def _missing_extra(error: ModuleNotFoundError) -> Exception:
    module = error.name or ""
    if (extra := provider_of(module)) is None:
        return error
    remedy = f"run python -m pip install --constraint constraints.txt --editable '.[{extra}]'"
    missing = MachineError(f"the module {module!r}, of the extra {extra!r}", "it not installed", remedy)
    missing.__cause__ = error
    return missing


def _report(error: Exception, status: int, verbose: bool) -> int:
    if verbose:
        traceback.print_exception(error)
    kind = "error" if isinstance(error, AttendantError) else f"unexpected {type(error).__name__}"
    sys.stderr.write(f"{kind}: {printable(' '.join(str(error).split()))}\n")
    return status
