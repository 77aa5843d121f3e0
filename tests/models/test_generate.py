import dataclasses

import pytest
import torch

from models.families.seq2seq import Seq2SeqTransformer
from models.generate import pad_sources, translate_greedily
from tests.models.families.translation import CONFIG, random_batch, translator

BATCH = random_batch()
START, END = CONFIG.start_token, CONFIG.end_token


class Scripted(Seq2SeqTransformer):
    """A model whose most probable next tokens are written down, one list a row."""

    def __init__(self, script):
        super().__init__(CONFIG)
        self.script = torch.tensor(script)
        self.calls = []

    def decode(self, target_ids, memory, source_mask):
        self.calls.append(target_ids.tolist())
        following = self.script[:, : target_ids.shape[1]]
        return torch.nn.functional.one_hot(following, CONFIG.vocabulary_size).float()


def answers(model, max_tokens, rows=None):
    rows = slice(None) if rows is None else rows
    return translate_greedily(model, BATCH.source_ids[rows], BATCH.source_mask[rows], max_tokens)


def test_an_answer_ends_before_its_end_token_and_has_no_start_token():
    model = Scripted([[5, 6, END, 7, 7], [END, 8, 8, 8, 8], [9, 9, 9, END, 3]])
    assert answers(model, max_tokens=5) == [[5, 6], [], [9, 9, 9]]


def test_decoding_stops_as_soon_as_every_row_has_ended():
    model = Scripted([[5, END, 4, 4, 4, 4], [END, 4, 4, 4, 4, 4], [6, 6, END, 4, 4, 4]])
    answers(model, max_tokens=6)
    assert len(model.calls) == 3
    assert model.calls[0] == [[START]] * 3
    assert model.calls[2] == [[START, 5, END], [START, END, 4], [START, 6, 6]]


@pytest.mark.parametrize("max_tokens", [0, 1, 4])
def test_an_answer_without_an_end_has_the_longest_length_allowed(max_tokens):
    model = Scripted([[5] * 9] * 3)
    assert answers(model, max_tokens) == [[5] * max_tokens] * 3


def test_a_batch_answers_what_its_rows_answer_one_by_one():
    model = talkative()
    together = answers(model, max_tokens=10)
    alone = []
    for number in range(3):
        row = BATCH.row(number)
        alone += translate_greedily(model, row.source_ids, row.source_mask, 10)
    assert together == alone
    assert len({tuple(answer) for answer in together}) > 1


def test_every_token_is_the_most_probable_one_behind_those_before_it():
    model = talkative()
    for number, answer in enumerate(answers(model, max_tokens=10)):
        row = BATCH.row(number)
        fed = torch.tensor([[START, *answer]])
        best = model(row.source_ids, row.source_mask, fed)[0].argmax(-1).tolist()
        assert best[: len(answer)] == answer
        assert len(answer) == 10 or best[len(answer)] == END


def talkative():
    """A translator whose answers differ from row to row: its cross-attention weighs more than random ones do."""
    model = translator(dtype=torch.float64)
    for block in model.decoder:
        block.cross_attention.output.weight *= 8.0
    return model


def test_padding_makes_rows_equally_long_and_the_mask_tells_them_apart():
    ids, mask = pad_sources([[5, 6, 7], [8]], pad_token=0)
    assert ids.tolist() == [[5, 6, 7], [8, 0, 0]]
    assert mask.tolist() == [[True, True, True], [True, False, False]]
    assert (ids.dtype, mask.dtype) == (torch.int64, torch.bool)


def test_the_configuration_says_which_token_starts_and_which_ends():
    model = Scripted([[5, 4, 6, 6]] * 3)
    model.config = dataclasses.replace(CONFIG, start_token=7, end_token=4)
    assert answers(model, max_tokens=4) == [[5]] * 3
    assert model.calls[0] == [[7]] * 3
