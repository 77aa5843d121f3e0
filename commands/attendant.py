"""From a trained PyTorch attention model to a served, load-tested Triton deployment.

    attendant models import FOLDER --out checkpoint        a Hugging Face folder → a checkpoint
    attendant export onnx checkpoint --out artefact        → ONNX graphs with a manifest
    attendant verify artefact                              → is every answer PyTorch's?
    attendant repository artefact --out repository         → a Triton model repository
    attendant serve --repository repository                → tritonserver, until Ctrl-C
    attendant generate Once upon a time                    → a prompt, continued

`attendant VERB --help` says what a verb takes.
"""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from attendant.cli import Group, Verbs, run
from attendant.tasks import TASKS

VERBS: Verbs = {
    "models": Group(
        "Reference models in pure PyTorch, and checkpoints of others.",
        {
            "list": "models.verbs:list_",
            "describe": "models.verbs:describe",
            "import": "models.verbs:import_",
            "train": "models.verbs:train",
            "explain": "models.verbs:explain",
        },
    ),
    "export": Group(
        "Checkpoint → artefact with a manifest.",
        {
            "onnx": "export.verbs:onnx",
            "torch": "export.verbs:torch",
            "tensorrt": "export.verbs:engine",
            "refit": "export.verbs:refit",
            "precision": "export.mixed_precision.verbs:precision",
            "bisect": "export.mixed_precision.verbs:bisect",
            "tune": "export.tuning.verbs:tune",
        },
    ),
    "verify": "export.verbs:check",
    "inspect": "export.verbs:inspect",
    "compare": "export.verbs:compare",
    "repository": "serving.verbs:repository",
    "lint": "serving.verbs:lint",
    "serve": "serving.verbs:serve",
    "gateway": "serving.gateway.verbs:gateway",
    "keys": "serving.gateway.verbs:keys",
    "engines": Group(
        "TensorRT engines in a repository, and whose may run.",
        {"verify": "serving.verbs:engines", "trust": "serving.verbs:trust"},
    ),
    "health": "clients.verbs:health",
    **{task.name: task.verb for task in TASKS.values() if task.verb},
    "explain": "clients.verbs:explain",
    "load": Group(
        "Load tests of a server; docs/guides/load.md explains the scenario, docs/guides/load-reports.md every figure.",
        {
            "run": "clients.load.verbs:run",
            "sweep": "clients.load.report_verbs:sweep",
            "compare": "clients.load.report_verbs:compare",
            "report": "clients.load.report_verbs:report",
            "tune": "serving.capacity.tuning.verb:tune",
        },
    ),
    "capacity": Group(
        "How many replicas a demand takes (docs/guides/capacity.md).",
        {"measure": "serving.verbs:profile", "plan": "serving.capacity.verb:plan"},
    ),
    "bench": Group("Models without a server.", {"offline": "serving.verbs:offline"}),
    "quickstart": "commands.quickstart.__main__:quickstart",
}


def main() -> NoReturn:
    """Run the command line, and leave the process with its exit status."""
    if (stranger := _stranger()) is not None:
        sys.exit(stranger)
    run("attendant", str(__doc__), VERBS, sys.argv[1:], "attendant")


def _stranger() -> str | None:
    """What to say where Python finds a package of another project by the name of one of ours."""
    here = Path(__file__).parents[1]
    for name in ("models", "export", "serving", "clients"):
        spec = find_spec(name)
        origin = Path(spec.origin if spec and spec.origin else "nowhere")
        if origin.parent != here / name:
            remedy = "take that folder off PYTHONPATH, or uninstall what brought it"
            return f"error: expected the package {name!r} of Attendant, in {here}; found {origin}; {remedy}"
    return None
