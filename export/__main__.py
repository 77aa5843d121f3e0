"""Checkpoint → ONNX graphs with a manifest, and the proof that they compute what the PyTorch model computes."""

from __future__ import annotations

import sys
from dataclasses import asdict
from json import dumps
from pathlib import Path

from tyro.conf import Positional

from models.cli import run


def onnx(model: Positional[str], out: Path, explain: bool = False, uint8: bool = False) -> int:
    """Write opset-24 graphs of standard operators and a manifest.json.

    Nothing is done where the folder already holds this very export.

    Args:
        model: a checkpoint folder, a shipped checkpoint, or a preset (see `python -m models list`).
        out: the artefact's folder; replaced in one step.
        uint8: take images as bytes, [height, width, channels], and scale and normalise them in the graph.
        explain: add a graph that also shows what the model attends to, for requests that ask for it.
    """
    from export.stage import export_onnx

    manifest, done = export_onnx(model, out, explain, uint8)
    graphs = ", ".join(f"{graph.name}.onnx" for graph in manifest.graphs)
    sys.stdout.write(f"{manifest.name}: {graphs} {'written to' if done else 'up to date in'} {out}\n")
    return 0


def check(folder: Positional[Path], source: str | None = None, json: bool = False) -> int:
    """Climb the parity ladder: eager float64, eager float32, ONNX Runtime, and OpenVINO where it is installed.

    Batch sizes, lengths, padding, and every split of a cached decode against the full forward pass. Writes parity.json.

    Args:
        folder: an exported artefact.
        source: the checkpoint to compare with, if not the one that the manifest names.
        json: print the verdicts as JSON instead of a table.
    """
    from export.ladder import climb
    from export.parity import require_parity, rungs_of, write_report
    from export.report import print_rungs

    measurements = climb(folder, source)
    rungs = rungs_of(measurements)
    report = write_report(measurements, rungs, folder)
    if json:
        sys.stdout.write(dumps([asdict(rung) for rung in rungs], indent=2) + "\n")
    else:
        print_rungs(folder.name, rungs)
    require_parity(rungs, report)
    return 0


if __name__ == "__main__":
    run("python -m export", str(__doc__), {"onnx": onnx, "check": check}, sys.argv[1:])
