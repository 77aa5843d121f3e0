import dataclasses
import re
from types import ModuleType

import pytest
import torch

from attendant.tokenizer import TOKENIZER_NAME, Tokenizer
from models.checkpoints.folder import CARD_NAME
from models.checkpoints.resolve import checkpoint_named
from models.checkpoints.store import Checkpoint
from models.train import dates, dates_gru
from models.train.date_data import held_out
from models.train.date_formats import FORMATS
from models.train.date_task import exact_match
from models.train.date_tokenizer import date_tokenizer
from models.train.loop import silent
from tests.models.train.losses import Losses

both_models = pytest.mark.parametrize("task", [dates, dates_gru], ids=["transformer", "gru"])


def shipped(task: ModuleType) -> Checkpoint:
    return checkpoint_named(task.TASK.name)


@both_models
def test_the_card_claims_at_least_99_5_percent_of_the_held_out_dates(task: ModuleType) -> None:
    folder = shipped(task).folder  # tests/models/train/test_command.py holds the weights to their card
    assert folder
    card = (folder / CARD_NAME).read_text(encoding="utf-8")
    claimed = re.search(rf"^\| {task.TASK.metric} \| ([\d.]+)% ", card, re.MULTILINE)
    assert claimed and float(claimed[1]) >= 99.5


@both_models
def test_the_example_is_held_out_and_the_shipped_model_gets_it_right(task: ModuleType) -> None:
    checkpoint = shipped(task)
    assert checkpoint.example
    pair = checkpoint.example["inputs"]["text"], checkpoint.example["answer"]
    assert pair == ("3rd of march 1997", "1997-03-03") == held_out(1)[0]
    assert exact_match(checkpoint.model, [pair]).right == 1


@both_models
def test_the_shipped_tokenizer_is_the_one_of_the_training(task: ModuleType) -> None:
    folder = shipped(task).folder
    assert folder
    loaded, trained = Tokenizer.load(folder / TOKENIZER_NAME), Tokenizer(date_tokenizer())
    texts = [text.title() for text, _ in held_out(len(FORMATS))]
    assert [loaded.encode(text, 48) for text in texts] == [trained.encode(text, 48) for text in texts]


@both_models
def test_what_the_card_says_of_the_31st_of_february_is_so(task: ModuleType) -> None:
    assert "`31 february 1999` becomes `1999-02-31`" in task.CARD.limits
    assert exact_match(shipped(task).model, [("31 february 1999", "1999-02-31")]).right == 1


@both_models
def test_a_few_steps_lower_the_loss(task: ModuleType) -> None:
    losses = Losses()
    task.train(0, losses, dataclasses.replace(task.SCHEDULE, steps=12, batch=32))
    assert losses.last(2) < 0.9 * losses.first(2)


@both_models
def test_one_seed_gives_one_model_and_another_seed_another(task: ModuleType) -> None:
    short = dataclasses.replace(task.SCHEDULE, steps=3, batch=8)
    first, again, other = (task.train(seed, silent, short).state_dict() for seed in (3, 3, 4))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert all(not torch.equal(first[name], other[name]) for name in first if "embedding" in name)
