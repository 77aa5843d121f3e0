import pytest
import torch

from attendant.tokenizer import Tokenizer
from models.checkpoints.resolve import checkpoint_named
from models.families.rnn_seq2seq import RecurrentSeq2Seq
from models.generate import pad_sources
from models.train.date_data import held_out
from models.train.date_task import exact_match
from models.train.date_tokenizer import date_tokenizer


def shipped() -> RecurrentSeq2Seq:
    model = checkpoint_named("dates-gru").model
    assert isinstance(model, RecurrentSeq2Seq)
    return model


@pytest.mark.planted
@pytest.mark.parametrize(
    "part", ["attention.query.weight", "attention.key.weight", "encoder.cells.weight_hh_l0_reverse"]
)
def test_a_zeroed_matrix_lowers_the_exact_match(part: str) -> None:
    model = shipped()
    model.get_parameter(part).zero_()
    assert exact_match(model, held_out(100)).share < 0.9


def test_the_last_two_digits_of_the_year_are_read_from_themselves() -> None:
    model, tokenizer = shipped(), Tokenizer(date_tokenizer())
    pairs = [(text, date) for text, date in held_out(100) if text.endswith(date[:4])]
    sources = [tokenizer.encode(text, 48) for text, _ in pairs]
    targets = [[model.config.start_token, *tokenizer.encode(date, 16)] for _, date in pairs]
    _, alignments = model.align(*pad_sources(sources, model.config.pad_token), torch.tensor(targets))
    ends = torch.tensor([len(source) for source in sources])
    looked_at = alignments.argmax(2)
    assert len(pairs) > 50
    for step, back in ((2, 2), (3, 1)):
        assert (looked_at[:, step] == ends - back).double().mean() >= 0.95
