"""Exports, each compared with the model that it was made from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attendant.progress import progress
from export.artefact.stage import export_onnx
from export.parity.ladder import climb
from export.parity.parity import require_parity, rungs_of, write_report
from export.parity.report import print_rungs


def export_and_prove(folders: Mapping[Path, bool]) -> None:
    """Export shipped checkpoints, and climb each one's ladder of parity.

    Args:
        folders: of the artefacts, called like their checkpoints → whether they also show what they attend to.

    Raises:
        ParityError: a rung does not hold; every ladder was climbed and printed.
    """
    rungs, reports = {}, {}
    with progress("export and compare", 2 * len(folders)) as advance:
        for folder, explained in folders.items():
            export_onnx(folder.name, folder, explained)
            advance(f"{folder.name} exported")
            measurements = climb(folder)
            rungs[folder] = rungs_of(measurements)
            reports[folder] = write_report(measurements, rungs[folder], folder)
            advance(f"{folder.name} compared")
    for folder in folders:
        print_rungs(folder.name, rungs[folder])
    for folder in folders:
        require_parity(rungs[folder], reports[folder])
