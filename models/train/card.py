"""The model card that lies beside trained weights: prose of the task, and every number from this very run."""

import platform
from dataclasses import dataclass
from importlib.metadata import version

import torch
from torch import nn

from attendant.config import config_to_json
from models.train.task import Measure, TrainingTask


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one training measured.

    Attributes:
        model: the trained model.
        metric: what the score measures, on which data.
        score: of the model.
        seconds: from the first step to the last.
        command: what makes the same weights again.
    """

    model: nn.Module
    metric: str
    score: Measure
    seconds: float
    command: str


def model_card(task: TrainingTask, run: Run) -> str:
    card = task.card
    sizes = {"parameters": f"{parameter_count(run.model):,}", "precision": "float32"}
    fields = ", ".join(f"{name} {value}" for name, value in config_to_json(run.model.config).items())
    made = (
        f"```\n{run.command}\n```\n\n{run.seconds:.0f} seconds on one thread. The same seed gives the same bytes "
        "again on the same machine with the same versions; another processor or version may round differently."
    )
    tools = {
        "made with": "version",
        "Python": platform.python_version(),
        **{package: version(package) for package in task.packages},
        "processor": f"{platform.system()} {platform.machine()}, {torch.backends.cpu.get_cpu_capability()}",
    }
    chapters = {
        "Purpose": card.purpose,
        "Result": _table({"metric": "value", run.metric: str(run.score), **sizes}),
        "Data": card.data,
        "Licence and attribution": card.licence,
        "Split": card.split,
        "Architecture": f"`{task.family}`, {fields}.",
        "Training": f"{card.recipe}\n\n{made}\n\n{_table(tools)}",
        "Limits": card.limits,
    }
    body = "\n\n".join(f"## {title}\n\n{text}" for title, text in chapters.items())
    return f"# {card.title}\n\nCheckpoint `{task.name}`, written by its own training.\n\n{body}\n"


def parameter_count(model: nn.Module) -> int:
    """Trained numbers in the model, shared ones counted once."""
    return sum(parameter.numel() for parameter in model.parameters())


def _table(rows: dict[str, str]) -> str:
    head, *body = (f"| {left} | {right} |" for left, right in rows.items())
    return "\n".join([head, "|---|---|", *body])
