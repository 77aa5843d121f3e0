import pytest
import torch

from attendant.errors import ConfigError
from attendant.tokenizer import Tokenizer
from models.train import dates, dates_gru
from models.train.date_data import held_out, random_batches, split_dates
from models.train.date_formats import every_day
from models.train.date_tokenizer import date_tokenizer
from tests.models.train.oracle import dates_meant

FIRST = [
    ("3rd of march 1997", "1997-03-03"),
    ("the 18th of august, 2026", "2026-08-18"),
    ("10th april 1981", "1981-04-10"),
]


def test_no_held_out_date_is_trained_on_in_any_format_and_none_is_lost() -> None:
    trained, held = map(set, split_dates())
    assert not trained & held
    assert trained | held == set(every_day())
    assert len(held) == 3000


def test_the_held_out_texts_are_of_as_many_held_out_dates_in_all_formats() -> None:
    pairs = held_out()
    held = {date.isoformat() for date in split_dates()[1]}
    assert len(pairs) == len({truth for _, truth in pairs} & held) == 2000
    assert all([date.isoformat() for date in dates_meant(text)] == [truth] for text, truth in pairs)


def test_the_held_out_texts_are_the_ones_that_the_shipped_models_were_measured_on() -> None:
    assert held_out()[:3] == FIRST
    assert held_out(3) == held_out()[:3]


@pytest.mark.parametrize("count", [0, 3001])
def test_more_held_out_texts_than_dates_are_refused(count: int) -> None:
    with pytest.raises(ConfigError, match="1 to 3000"):
        held_out(count)


def test_a_batch_has_training_dates_and_their_answers_between_start_and_end() -> None:
    source_ids, mask, target_ids = random_batches(64, 0, dates.CONFIG)()
    tokenizer, trained = Tokenizer(date_tokenizer()), set(split_dates()[0])
    assert (target_ids[:, 0] == dates.CONFIG.start_token).all() and (target_ids[:, -1] == dates.CONFIG.end_token).all()
    for source, seen, target in zip(source_ids, mask, target_ids, strict=True):
        (meant,) = dates_meant(tokenizer.decode(source[seen].tolist()))
        assert meant in trained
        assert tokenizer.decode(target[1:-1].tolist()) == meant.isoformat()
        assert (source[~seen] == dates.CONFIG.pad_token).all()


def test_both_models_learn_from_the_same_batches_and_another_seed_gives_others() -> None:
    first, same, other = (
        random_batches(8, seed, config)()
        for seed, config in ((0, dates.CONFIG), (0, dates_gru.CONFIG), (1, dates.CONFIG))
    )
    assert all(map(torch.equal, first, same))
    assert not torch.equal(first[2], other[2])
