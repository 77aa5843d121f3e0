"""Artefacts that tests share: each exported once for all processes of a run, known by what decides its export."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from attendant.folders import one_at_a_time


class SharedExports:
    """Makes each export once; nobody writes into what it hands out, but into a copy of it."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __call__(self, name, explain=False, uint8=False, precision="fp32") -> Path:
        """The folder of an artefact.

        Args:
            name: a preset, a shipped checkpoint, or the path of a checkpoint.
            explain: as :func:`export.artefact.stage.export_onnx` takes it; so the others.
        """
        from export.artefact.fingerprint import current_artefact, fingerprint_of
        from export.artefact.stage import export_onnx

        options = {"explain": explain, "uint8": uint8, "precision": precision}
        fingerprint = fingerprint_of(str(name), options)
        out = self.place / fingerprint[:16] / Path(name).name
        if out.exists():
            assert current_artefact(out, fingerprint), f"a test has changed a file of the shared artefact {out}"
            return out
        with TemporaryDirectory() as own:
            float32 = None
            if precision != "fp32":  # a copy, as calibration writes into it for a while, and others copy the shared one
                float32 = shutil.copytree(self(name, explain, uint8), Path(own) / Path(name).name)
            export_onnx(str(name), out, explain, uint8, precision, exported=float32)
        return out

    def checkpoint(self, name, write) -> Path:
        """The folder of a checkpoint that a function writes into the path that it is given."""
        folder = self.place / "checkpoints" / name
        with one_at_a_time(folder):
            if not folder.exists():
                write(folder)
        return folder
