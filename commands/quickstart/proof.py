"""Exports, each compared with the model that it was made from."""

from collections.abc import Sequence
from pathlib import Path

from attendant.progress import progress
from export.artefact.stage import export_onnx
from export.parity.check import check_parity
from export.parity.parity import PARITY_NAME, levels_of, read_passed, require_parity, write_report
from export.parity.report import print_levels


def export_and_prove(folders: Sequence[Path]) -> None:
    """Export shipped checkpoints so that they also show what they attend to, and check each one's parity.

    What has passed before, and is the same artefact still, is not measured again.

    Args:
        folders: of the artefacts, called like their checkpoints.

    Raises:
        ParityError: a level does not hold; every one was measured and printed.
    """
    levels = {}
    with progress("export and compare", 2 * len(folders)) as advance:
        for folder in folders:
            _, is_new = export_onnx(folder.name, folder, explain=True)
            advance(f"{folder.name} exported{'' if is_new else ' before'}")
            passed = None if is_new else read_passed(folder)
            if passed is None:
                measurements = check_parity(folder)
                passed = levels_of(measurements)
                write_report(measurements, passed, folder)
                advance(f"{folder.name} compared")
            else:
                advance(f"{folder.name} compared before")
            levels[folder] = passed
    for folder in folders:
        print_levels(folder.name, levels[folder])
    for folder in folders:
        require_parity(levels[folder], folder / PARITY_NAME)
