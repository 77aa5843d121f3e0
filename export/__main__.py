"""Checkpoint → artefact with a manifest, and the proof that ONNX graphs compute what the PyTorch model computes."""

import sys

from attendant.cli import run

if __name__ == "__main__":
    run(
        "python -m export",
        str(__doc__),
        {
            "onnx": "export.verbs:onnx",
            "torch": "export.verbs:torch",
            "check": "export.verbs:check",
            "compare": "export.verbs:compare",
            "inspect": "export.verbs:inspect",
            "engine": "export.verbs:engine",
            "refit": "export.verbs:refit",
            "precision": "export.mixed_precision.verbs:precision",
            "bisect": "export.mixed_precision.verbs:bisect",
        },
        sys.argv[1:],
    )
