import dataclasses

import pytest
import torch

from models.checkpoints.resolve import checkpoint_named
from models.errors import ConfigError
from models.tokenization import TOKENIZER_NAME, Tokenizer
from models.train import dates
from models.train.date_formats import FORMATS, every_day
from models.train.date_tokenizer import date_tokenizer
from models.train.loop import silent
from tests.models.train.losses import Losses
from tests.models.train.oracle import dates_meant

FIRST = [
    ("3rd of march 1997", "1997-03-03"),
    ("the 18th of august, 2026", "2026-08-18"),
    ("10th april 1981", "1981-04-10"),
]
SHORT = dataclasses.replace(dates.SCHEDULE, steps=12, batch=32)


def test_the_shipped_model_writes_at_least_99_5_percent_of_the_held_out_dates() -> None:
    assert dates.exact_match(checkpoint_named("dates-transformer").model).share >= 0.995


def test_no_held_out_date_is_trained_on_in_any_format_and_none_is_lost() -> None:
    trained, held = map(set, dates.split_dates())
    assert not trained & held
    assert trained | held == set(every_day())
    assert len(held) == 3000


def test_the_held_out_texts_are_of_as_many_held_out_dates_in_all_formats() -> None:
    pairs = dates.held_out()
    held = {date.isoformat() for date in dates.split_dates()[1]}
    assert len(pairs) == len({truth for _, truth in pairs} & held) == 2000
    assert all([date.isoformat() for date in dates_meant(text)] == [truth] for text, truth in pairs)


def test_the_held_out_texts_are_the_ones_that_the_shipped_model_was_measured_on() -> None:
    assert dates.held_out()[:3] == FIRST
    assert dates.held_out(3) == dates.held_out()[:3]


@pytest.mark.parametrize("count", [0, 3001])
def test_more_held_out_texts_than_dates_are_refused(count: int) -> None:
    with pytest.raises(ConfigError, match="1 to 3000"):
        dates.held_out(count)


def test_the_example_is_held_out_and_the_shipped_model_gets_it_right() -> None:
    checkpoint = checkpoint_named("dates-transformer")
    pair = checkpoint.example["inputs"]["text"], checkpoint.example["answer"]
    assert pair == ("3rd of march 1997", "1997-03-03") == dates.held_out(1)[0]
    assert dates.exact_match(checkpoint.model, [pair]).right == 1


def test_the_shipped_tokenizer_is_the_one_of_the_training() -> None:
    checkpoint = checkpoint_named("dates-transformer")
    assert checkpoint.folder
    shipped = Tokenizer.load(checkpoint.folder / TOKENIZER_NAME)
    trained = Tokenizer(date_tokenizer())
    texts = [text.title() for text, _ in dates.held_out(len(FORMATS))]
    assert [shipped.encode(text, 48) for text in texts] == [trained.encode(text, 48) for text in texts]


@pytest.mark.parametrize("part", ["encoder.0.attention.value.weight", "decoder.1.cross_attention.query.weight"])
def test_a_zeroed_attention_matrix_lowers_the_exact_match(part: str) -> None:
    model = checkpoint_named("dates-transformer").model
    model.get_parameter(part).zero_()
    assert dates.exact_match(model, dates.held_out(100)).share < 0.9


def test_a_few_steps_lower_the_loss() -> None:
    losses = Losses()
    dates.train(0, losses, SHORT)
    assert losses.last(2) < 0.9 * losses.first(2)


def test_one_seed_gives_one_model_and_another_seed_another() -> None:
    first, again, other = (dates.train(seed, silent, SHORT).state_dict() for seed in (3, 3, 4))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["embedding.weight"], other["embedding.weight"])
