"""From a task to a checkpoint folder with its model card."""

import time
from dataclasses import replace
from pathlib import Path

from models.checkpoints.folder import CARD_NAME, replaced_checkpoint
from models.checkpoints.store import Checkpoint, save_checkpoint
from models.registry import family_named
from models.train.card import Run, model_card
from models.train.loop import Report
from models.train.task import TrainingTask


def train_checkpoint(task: TrainingTask, folder: Path, seed: int, report: Report) -> Run:
    """Train a shipped checkpoint and write it in one step; a failure leaves what was there.

    Args:
        task: which.
        folder: where to write.
        seed: of every random number.
        report: told of each step.

    Raises:
        OutputError: the folder cannot be written.
    """
    with replaced_checkpoint(folder) as staging:
        begin = time.perf_counter()
        model = task.train(seed, report)
        seconds = time.perf_counter() - begin
        task.companions(staging)
        family = family_named(task.family)
        plain = Checkpoint(name=task.name, family=family, model=model, details=task.details, folder=staging)
        trained = replace(plain, example=task.example(plain))
        save_checkpoint(trained, staging)
        command = f"attendant models train {task.name} --seed {seed}"
        run = Run(model=model, metric=task.metric, score=task.score(trained), seconds=seconds, command=command)
        (staging / CARD_NAME).write_text(model_card(task, run), encoding="utf-8")
    return run
