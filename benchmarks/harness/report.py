"""One run of a benchmark: its arguments, the record of command, hardware and versions, and the page of its results."""

import argparse
import datetime
import json
import shlex
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.machine import ROOT, hardware, versions

RESULTS = ROOT / "benchmarks" / "results"


@dataclass(frozen=True, slots=True)
class Benchmark:
    """What every benchmark has.

    Attributes:
        name: of the files of its results, and with underscores of the module, if none is given.
        title: of the page.
        doc: the module's, which is the help of the command.
        module: that is run.
    """

    name: str
    title: str
    doc: str | None
    module: str = ""

    @property
    def command(self) -> str:
        return f"python -m {self.module or 'benchmarks.' + self.name.replace('-', '_')}"

    def parser(
        self, *, scratch: bool = False, rounds: int | None = None, patience_s: float | None = None
    ) -> argparse.ArgumentParser:
        """Its arguments: ``--out``, and those that are asked for, with their defaults."""
        parser = argparse.ArgumentParser(
            prog=self.command, description=self.doc, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        parser.add_argument("--out", type=Path, help=f"folder for <date>-{self.name}.md and .json; none if absent")
        if scratch:
            parser.add_argument("--scratch", type=Path, help="folder for artefacts; kept if given")
        if rounds is not None:
            parser.add_argument("--rounds", type=int, default=rounds, help="in which the variants take turns")
        if patience_s is not None:
            parser.add_argument(
                "--patience", type=float, default=patience_s, help="seconds to wait for a quiet machine"
            )
        return parser

    def publish(
        self,
        args: argparse.Namespace,
        body: Iterable[str],
        record: Mapping[str, Any],
        machine: Mapping[str, str] | None = None,
        variant: str = "",
    ) -> None:
        """Print the page; with ``--out`` also write it, and beside it the record as JSON.

        Args:
            args: of the parser.
            body: lines below the head.
            record: what was measured.
            machine: on what; this machine's processor and packages if not given.
            variant: behind the name of the files.
        """
        command, now = f"{self.command} {shlex.join(sys.argv[1:])}".strip(), datetime.datetime.now(datetime.UTC)
        if machine is None:
            packages = ", ".join(f"{name} {version}" for name, version in versions().items())
            machine = {**hardware(), "versions": f"{packages}; tritonserver 2.51.0"}
        facts = [f"- {name}: {value}" for name, value in machine.items()]
        page = "\n".join([f"# {self.title}, {now:%Y-%m-%d %H:%M} UTC\n", f"    {command}\n", *facts, "", *body]) + "\n"
        sys.stdout.write(page)
        if args.out is not None:
            args.out.mkdir(parents=True, exist_ok=True)
            stem: Path = args.out / "-".join(filter(None, [f"{now:%Y-%m-%d}", self.name, variant]))
            stem.with_suffix(".md").write_text(page, encoding="utf-8")
            raw = json.dumps({"command": command, "machine": dict(machine), **record}, indent=1)
            stem.with_suffix(".json").write_text(raw + "\n", encoding="utf-8")


@contextmanager
def scratch_folder(args: argparse.Namespace) -> Iterator[Path]:
    """The folder that ``--scratch`` names, or one that goes at the end."""
    with tempfile.TemporaryDirectory() as temporary:
        yield args.scratch or Path(temporary)


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; numbers stand to the right."""
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    lines += ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join(lines)
