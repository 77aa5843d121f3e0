"""Exports, each compared with the model that it was made from."""

from collections.abc import Sequence
from pathlib import Path

from attendant.progress import progress
from export.artefact.stage import export_onnx
from export.parity.check import check_parity
from export.parity.parity import levels_of, require_parity, write_report
from export.parity.report import print_levels


def export_and_prove(folders: Sequence[Path]) -> None:
    """Export shipped checkpoints so that they also show what they attend to, and check each one's parity.

    Args:
        folders: of the artefacts, called like their checkpoints.

    Raises:
        ParityError: a level does not hold; every one was measured and printed.
    """
    levels, reports = {}, {}
    with progress("export and compare", 2 * len(folders)) as advance:
        for folder in folders:
            export_onnx(folder.name, folder, explain=True)
            advance(f"{folder.name} exported")
            measurements = check_parity(folder)
            levels[folder] = levels_of(measurements)
            reports[folder] = write_report(measurements, levels[folder], folder)
            advance(f"{folder.name} compared")
    for folder in folders:
        print_levels(folder.name, levels[folder])
    for folder in folders:
        require_parity(levels[folder], reports[folder])
