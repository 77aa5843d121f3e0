"""Export a decoder of 1.1 billion random weights: seconds, peak memory and files; and whether the graph is right.

    python benchmarks/large_export.py [--scratch DIR] [--layers N] [--out DIR]

The model has the shape of TinyLlama-1.1B, untied; its float32 weights are 4.4 GB, above the 2 GB at which a graph in
one file ends. Memory is that of ``attendant export onnx`` and of every process that it starts, added up ten times a
second:

    own       what is nowhere else: anonymous and shared memory (Pss_Anon and Pss_Shmem of /proc/PID/smaps_rollup);
              a page that processes share, because one was forked from the other, counts once
    resident  with the pages of files that they have mapped (VmRSS), which the kernel takes back when it needs them;
              a page that processes share counts for each of them

The check feeds the written graph a prompt and then its own answers,
and compares the logits of every step with those of the eager model in float32.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

PRESET = "tinyllama-1.1b"
PROMPT, STEPS, MAX_LENGTH = 12, 8, 2048
INTERVAL_S = 0.1
GB = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes that a process and its descendants hold."""

    own: int = 0
    resident: int = 0

    def largest(self, other: Memory) -> Memory:
        """The larger of each, not necessarily of one moment."""
        return Memory(own=max(self.own, other.own), resident=max(self.resident, other.resident))


def main() -> None:
    """Make the checkpoint, export it, check it, and write what it took."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--scratch", type=Path, help="where 9 GB of files are made; /tmp if not given")
    parser.add_argument("--layers", type=int, default=22, help="fewer for a trial")
    parser.add_argument("--out", type=Path, help="folder for <date>-large-export.json and .md; none if not given")
    parser.add_argument("--step", choices=["make", "check"], help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.step:
        _print({"make": _make, "check": _check}[asked.step](asked.scratch, asked.layers))
        return
    with tempfile.TemporaryDirectory(dir=asked.scratch) as scratch:
        done = _measured(Path(scratch), asked.layers)
    _print(done)
    if asked.out:
        _write(done, asked.out)


def _measured(scratch: Path, layers: int) -> dict[str, Any]:
    made = _child("make", scratch, layers)
    command = [
        sys.executable,
        "-m",
        "attendant",
        "export",
        "onnx",
        str(scratch / "checkpoint"),
        "--out",
        str(scratch / "artefact"),
    ]
    began = time.perf_counter()
    exported = _watched(command)
    seconds = time.perf_counter() - began
    inspected = _watched([sys.executable, "-m", "attendant", "inspect", str(scratch / "artefact")])
    checked = _watched([sys.executable, "-m", "attendant", "verify", str(scratch / "artefact"), "--target", "tensorrt"])
    weights = made["bytes"]
    return {
        "parameters": made["parameters"],
        "weights GB": weights / GB,
        "export s": seconds,
        "own GB": exported.own / GB,
        "own / weights": exported.own / weights,
        "resident GB": exported.resident / GB,
        "inspect own GB": inspected.own / GB,
        "check --target tensorrt own GB": checked.own / GB,
        "files MB": {path.name: path.stat().st_size / 1e6 for path in sorted((scratch / "artefact").iterdir())},
        **_child("check", scratch, layers),
    }


def _make(scratch: Path, layers: int) -> dict[str, Any]:
    import torch

    from models.checkpoints.store import Checkpoint, save_checkpoint
    from models.presets import PRESETS
    from models.registry import family_named

    config = replace(PRESETS[PRESET].config, layers=layers, max_length=MAX_LENGTH)
    family = family_named(PRESETS[PRESET].family)
    torch.manual_seed(0)
    with torch.no_grad():
        model = family.build(config).eval()
    save_checkpoint(Checkpoint(name="large", family=family, model=model), scratch / "checkpoint")
    count = sum(parameter.numel() for parameter in model.parameters())
    return {"parameters": count, "bytes": 4 * count}


def _check(scratch: Path, layers: int) -> dict[str, Any]:
    import numpy as np
    import torch

    from attendant.manifest import Manifest
    from models.checkpoints.store import load_checkpoint
    from serving.runtime.cached_decoder import CachedDecoder
    from serving.runtime.create_runners import create_runners

    manifest, largest, tokens = Manifest.read(scratch / "artefact"), 0.0, []
    prompt = np.random.default_rng(0).integers(3, 32000, (1, PROMPT))
    began = time.perf_counter()
    decoder = CachedDecoder(create_runners(scratch / "artefact", manifest)["decoder"], 1)
    loaded = time.perf_counter() - began
    logits, fed = [_last(decoder.step(prompt, np.array([0])))], prompt
    for position in range(PROMPT, PROMPT + STEPS):
        tokens.append(int(logits[-1].argmax()))
        fed = np.append(fed, [[tokens[-1]]], axis=1)
        logits.append(_last(decoder.step(fed[:, -1:], np.array([position]))))
    del decoder
    model = load_checkpoint(scratch / "checkpoint").model
    with torch.no_grad():
        eager = model(torch.from_numpy(fed))[0].numpy()[PROMPT - 1 :]
    largest = float(np.abs(np.concatenate(logits) - eager).max())
    same = [int(row.argmax()) for row in eager][:STEPS] == tokens
    return {
        "session s": loaded,
        "greedy steps": STEPS,
        "same tokens": same,
        "largest difference": largest,
        "largest logit": float(np.abs(eager).max()),
    }


def _last(outputs: dict[str, Any]) -> Any:
    return outputs["logits"][:, -1].copy()


def _watched(command: list[str]) -> Memory:
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    peak, ended = Memory(), threading.Event()

    def watch() -> None:
        nonlocal peak
        while not ended.wait(INTERVAL_S):
            peak = peak.largest(_held(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    status = process.wait()
    ended.set()
    watcher.join()
    if status:
        raise SystemExit(f"{' '.join(command)} ended with {status}")
    return peak


def _held(root: int) -> Memory:
    own = resident = 0
    for pid in _with_descendants(root):
        try:
            own += _bytes(Path(f"/proc/{pid}/smaps_rollup"), ("Pss_Anon:", "Pss_Shmem:"))
            resident += _bytes(Path(f"/proc/{pid}/status"), ("VmRSS:",))
        except (OSError, ValueError):  # it has ended
            continue
    return Memory(own=own, resident=resident)


def _with_descendants(root: int) -> list[int]:
    found, parents = [root], dict(_parents())
    while more := [pid for pid, parent in parents.items() if parent in found and pid not in found]:
        found += more
    return found


def _parents() -> Iterator[tuple[int, int]]:
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            yield int(path.parent.name), int(path.read_text(encoding="ascii").rpartition(")")[2].split()[1])
        except (OSError, ValueError):  # it has ended
            continue


def _bytes(path: Path, fields: tuple[str, ...]) -> int:
    lines = path.read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(fields))


def _child(step: str, scratch: Path, layers: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--step", step, "--scratch", str(scratch), "--layers", str(layers)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    value: dict[str, Any] = json.loads(done.stdout)
    return value


def _print(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def _write(done: dict[str, Any], out: Path) -> None:
    import torch

    stamp = datetime.datetime.now(datetime.UTC)
    name = out / f"{stamp:%Y-%m-%d}-large-export"
    machine = f"torch {torch.__version__}, Python {platform.python_version()}"
    name.with_suffix(".json").write_text(json.dumps({"machine": machine, **done}, indent=2) + "\n", encoding="utf-8")
    rows = {**done, "files MB": ", ".join(f"{file} {size:.1f}" for file, size in done["files MB"].items())}
    told = {key: f"{value:.4g}" if isinstance(value, float) else str(value) for key, value in rows.items()}
    text = [f"# Exporting a large decoder, {stamp:%Y-%m-%d %H:%M} UTC", "", "    python benchmarks/large_export.py", ""]
    legend = str(__doc__).split("\n\n", 2)[2].rstrip()
    text += [f"{machine}.", "", legend, "", "| what | measured |", "|---|---|"]
    text += [f"| {key} | {value} |" for key, value in told.items()]
    name.with_suffix(".md").write_text("\n".join(text) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
