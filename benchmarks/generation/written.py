"""How results are written: a dated Markdown file that says what ran where, and the numbers as JSON beside it."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.hardware import hardware

_PACKAGES = ("torch", "onnxruntime", "numpy", "tokenizers", "tritonclient", "nvidia-pytriton", "grpcio")


def preamble(title: str, script: str, words: Sequence[str]) -> list[str]:
    """The head of a report: command, date, hardware and versions."""
    now = datetime.datetime.now(datetime.UTC)
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in _PACKAGES)
    machine = [f"- {name}: {value}" for name, value in hardware().items()]
    command = " ".join(["python", script, *words])
    return [
        f"# {title}, {now:%Y-%m-%d %H:%M} UTC\n",
        f"    {command}\n",
        *machine,
        f"- versions: {versions}; tritonserver 2.51.0\n",
    ]


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; numbers stand to the right."""
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def write_result(out: Path, name: str, text: str, value: Any) -> Path:
    """Write ``<date>-<name>.md`` and ``.json`` into a folder, made if it is not there; the path without a suffix."""
    out.mkdir(parents=True, exist_ok=True)
    stem = out / f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}-{name}"
    stem.with_suffix(".md").write_text(text + "\n", encoding="utf-8")
    stem.with_suffix(".json").write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    return stem
