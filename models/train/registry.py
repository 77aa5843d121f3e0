"""The checkpoints that this repository can make again: name → task."""

from attendant.errors import unknown_name
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
        raise unknown_name("checkpoint", name, TASKS, f"those that can be trained are {', '.join(sorted(TASKS))}")
    return TASKS[name]
