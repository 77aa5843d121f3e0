import dataclasses
import json
import re
from pathlib import Path

import pytest
import torch

from attendant.errors import UnknownNameError
from models.checkpoints.place import PRETRAINED, shipped_names
from models.checkpoints.store import load_checkpoint
from models.train import digits, stdlib_lm
from models.train.command import train_checkpoint
from models.train.loop import silent
from models.train.registry import TASKS, task_named
from models.train.task import TrainingTask

SHORT = dataclasses.replace(digits.SCHEDULE, steps=5)
QUICK = dataclasses.replace(task_named("digits-vit"), train=lambda seed, report: digits.train(seed, report, SHORT))
FILES = {"README.md", "config.json", "model.safetensors"}


def folder_of(task: TrainingTask) -> Path:
    return PRETRAINED / task.name


def test_every_task_has_its_shipped_checkpoint_and_the_other_way_round() -> None:
    assert shipped_names() == sorted(TASKS)


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
class TestShipped:
    def test_a_shipped_checkpoint_is_smaller_than_four_megabytes(self, task: TrainingTask) -> None:
        assert sum(path.stat().st_size for path in folder_of(task).iterdir()) < 4_000_000

    def test_the_model_card_has_every_chapter_the_command_and_no_empty_one(self, task: TrainingTask) -> None:
        card = (folder_of(task) / "README.md").read_text(encoding="utf-8")
        chapters = re.findall(r"^## (.+)\n\n(?!#)\S", card, re.MULTILINE)
        assert chapters == [
            "Purpose",
            "Result",
            "Data",
            "Licence and attribution",
            "Split",
            "Architecture",
            "Training",
            "Limits",
        ]
        assert f"attendant models train {task.name} --seed 0" in card

    def test_the_shipped_configuration_is_the_one_that_is_trained(self, task: TrainingTask) -> None:
        value = json.loads((folder_of(task) / "config.json").read_text(encoding="utf-8"))
        assert (value["name"], value["family"], value["details"]) == (task.name, task.family, task.details)
        assert value["example"] == task.example(load_checkpoint(folder_of(task)))


@pytest.mark.parametrize(
    "task", [task for task in TASKS.values() if task != stdlib_lm.TASK], ids=lambda task: task.name
)
def test_the_metric_in_the_card_is_that_of_the_shipped_weights_where_the_data_are_the_same_everywhere(
    task: TrainingTask,
) -> None:
    card = (folder_of(task) / "README.md").read_text(encoding="utf-8")
    score = task.score(load_checkpoint(folder_of(task)))
    assert f"| {task.metric} | {score} |" in card


def test_training_writes_a_checkpoint_that_loads_with_the_same_weights(tmp_path: Path) -> None:
    run = train_checkpoint(QUICK, tmp_path / "new", 7, silent)
    loaded = load_checkpoint(tmp_path / "new")
    assert {path.name for path in (tmp_path / "new").iterdir()} == FILES
    assert all(torch.equal(value, run.model.state_dict()[name]) for name, value in loaded.model.state_dict().items())
    assert str(run.score) in (tmp_path / "new" / "README.md").read_text(encoding="utf-8")
    assert run.command == "attendant models train digits-vit --seed 7"


def test_training_twice_with_one_seed_writes_the_same_bytes(tmp_path: Path) -> None:
    for name in ("first", "second"):
        train_checkpoint(QUICK, tmp_path / name, 0, silent)
    first, second = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("first", "second"))
    assert first == second


def test_a_training_that_fails_leaves_the_old_checkpoint(tmp_path: Path) -> None:
    def broken(step: int, steps: int, loss: float) -> None:
        raise RuntimeError("power cut")

    train_checkpoint(QUICK, tmp_path / "model", 0, silent)
    before = (tmp_path / "model" / "model.safetensors").read_bytes()
    with pytest.raises(RuntimeError, match="power cut"):
        train_checkpoint(QUICK, tmp_path / "model", 1, broken)
    assert (tmp_path / "model" / "model.safetensors").read_bytes() == before


def test_an_unknown_task_is_refused_with_the_names_that_exist() -> None:
    with pytest.raises(UnknownNameError, match="digits-vit"):
        task_named("digits")
