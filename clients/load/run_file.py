"""A run as a file: JSON of a stated version, from which every figure can be computed again."""

import json
from collections.abc import Iterable
from dataclasses import asdict, fields, replace
from pathlib import Path

import msgspec

from attendant.errors import ArtefactError, ConfigError, OutputError
from attendant.output_files import write_output
from attendant.records import parse_json, read_file
from clients.load.record import LoadRun, RequestRecord
from clients.load.scenario_file import scenario_from

FORMAT = "attendant load run"
VERSION = 2
MOST_RUN_BYTES = 1 << 30
MOST_SECONDS, MOST_COUNT = 1e9, 1 << 40
_AGAIN = "run the load test again, or read it with the release that wrote it"


def write_run(run: LoadRun, path: Path) -> None:
    """Write a run; its records lie column by column.

    Raises:
        OutputError: the file cannot be written.
    """
    whole = {field.name: getattr(run, field.name) for field in fields(LoadRun)}
    columns = {field.name: [getattr(record, field.name) for record in run.records] for field in fields(RequestRecord)}
    columns["outcome"] = [record.outcome.value for record in run.records]
    whole |= {
        "records": columns,
        "generator": asdict(run.generator),
        "server": None if run.server is None else asdict(run.server),
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_output(path, json.dumps({"format": FORMAT, "version": VERSION, "run": whole}) + "\n")
    except OSError as error:
        raise OutputError(f"a place to write a run at {path}", str(error), "choose another path") from error


def require_writable(*paths: Path | None, inputs: Iterable[Path | None] = ()) -> None:
    """Make sure that files can be written before anything is measured; those that are not given are left out.

    Args:
        paths: that are to be written; a device may be so twice.
        inputs: files that are read, and stay.

    Raises:
        OutputError: one cannot be written, is read too, or is written twice.
    """
    taken = {_identity(path) for path in inputs if path is not None}
    for path in paths:
        if path is not None:
            try:
                is_new = not path.exists()
                if (own := _identity(path)) in taken:
                    found = "a file that is read, or written twice"
                    raise OutputError(f"a file of its own to write at {path}", found, "choose another path")
                if is_new or path.is_file():
                    taken.add(own)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.open("a").close()
                if is_new:
                    path.unlink()
            except OSError as error:
                raise OutputError(f"a place to write at {path}", str(error), "choose another path") from error


def _identity(path: Path) -> object:
    """What is equal for two paths to one file, whether links lead there or a disk knows no large letters."""
    try:
        found = path.stat()
        return found.st_dev, found.st_ino
    except OSError:
        return path.resolve()
    except ValueError:  # a name that no file has
        return path


def read_run(path: Path) -> LoadRun:
    """Read a run; its scenario has the defaults of keys that have come since it was written.

    Raises:
        ArtefactError: the file is missing, truncated, of another kind, or of another version.
    """
    try:
        content = parse_json(read_file(path, MOST_RUN_BYTES))
    except OSError as error:
        remedy = "name the file that --out wrote"
        reason = error.strerror or str(error)
        message = f"no run can be read at {path}: {reason}; {remedy}"
        raise ArtefactError(f"a run at {path}", reason, remedy, message=message) from error
    except ValueError as error:
        raise ArtefactError(f"whole JSON in {path}", f"text that ends or breaks: {error}", _AGAIN) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ArtefactError(f"a run of `attendant load run` in {path}", "JSON of another kind", "name the run's file")
    if content.get("version") != VERSION:
        raise ArtefactError(f"version {VERSION} of a run in {path}", f"version {content.get('version')}", _AGAIN)
    try:
        values = content["run"]
        columns = values["records"]
        names = [field.name for field in fields(RequestRecord)]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*(columns[name] for name in names), strict=True)]
        run = msgspec.convert({**values, "records": rows}, LoadRun)
        for record in run.records:
            _require_sensible(record)
    except (KeyError, TypeError, ValueError) as error:
        raise ArtefactError(f"every field of a run in {path}", f"{type(error).__name__}: {error}", _AGAIN) from error
    try:
        return replace(run, scenario=scenario_from(run.scenario).plain())
    except (ConfigError, TypeError, ValueError):  # of a load test that no scenario describes
        return run


def _require_sensible(record: RequestRecord) -> None:
    times_s = (record.scheduled_s, record.sent_s, record.ended_s, *record.responses_s)
    counts = (record.input_tokens, record.images, *record.tokens)
    if len(record.tokens) != len(record.responses_s):
        raise ValueError(f"{len(record.responses_s)} responses and tokens of {len(record.tokens)}")
    if not all(abs(time_s) <= MOST_SECONDS for time_s in times_s) or not all(0 <= n <= MOST_COUNT for n in counts):
        raise ValueError(f"times or counts of request {record.number} that no run has")
