"""The checkpoints that this repository can make again: name → task."""

from __future__ import annotations

from attendant.errors import UnknownNameError
from models.train import dates, dates_gru, digits, digits_captioner, digits_swin, stdlib_lm
from models.train.task import TrainingTask

_EVERY = (digits.TASK, digits_swin.TASK, digits_captioner.TASK, dates.TASK, dates_gru.TASK, stdlib_lm.TASK)
TASKS = {task.name: task for task in _EVERY}


def task_named(name: str) -> TrainingTask:
    """The task of that name.

    Raises:
        UnknownNameError: there is none.
    """
    if name not in TASKS:
        raise UnknownNameError(f"a checkpoint to train, one of {sorted(TASKS)}", repr(name), "correct the name")
    return TASKS[name]
