"""The translator against two strangers with the same weights, and proof that the comparisons are not blind."""

import pytest
import torch

from models.families import seq2seq
from tests.models.agreement import TOLERANCES, both_precisions, difference, parameters_that_do_not_matter
from tests.models.families.marian_weights import marian_from_ours
from tests.models.families.torch_transformer_weights import logits_by_torch, torch_halves_from_ours
from tests.models.families.translation import logits_of, random_batch, translator

BATCH = random_batch()


def marian_logits(model):
    theirs = marian_from_ours(model)
    return theirs(
        input_ids=BATCH.source_ids,
        attention_mask=BATCH.source_mask.long(),
        decoder_input_ids=BATCH.target_ids,
        use_cache=False,
    ).logits


def torch_logits(model):
    return logits_by_torch(model, *torch_halves_from_ours(model), BATCH)


every_oracle = pytest.mark.parametrize("oracle", [marian_logits, torch_logits])


@both_precisions
@every_oracle
def test_it_equals_the_stranger_with_the_same_weights(oracle, dtype):
    model = translator(dtype)
    assert difference(logits_of(model, BATCH), oracle(model)) <= TOLERANCES[dtype]


@both_precisions
def test_without_attention_biases_it_equals_marian_with_zero_biases(dtype):
    model = translator(dtype, attention_bias=False)
    assert difference(logits_of(model, BATCH), marian_logits(model)) <= TOLERANCES[dtype]


@both_precisions
def test_the_encoder_alone_equals_that_of_marian_wherever_there_is_a_token(dtype):
    model = translator(dtype)
    ours = model.encode(BATCH.source_ids, BATCH.source_mask)
    theirs = marian_from_ours(model).model.encoder(BATCH.source_ids, BATCH.source_mask.long()).last_hidden_state
    assert difference(ours[BATCH.source_mask], theirs[BATCH.source_mask]) <= TOLERANCES[dtype]


@every_oracle
def test_a_change_of_any_parameter_but_the_biases_of_keys_is_seen(oracle):
    model = translator()
    wanted = oracle(model)
    blind = parameters_that_do_not_matter(model, lambda: difference(logits_of(model, BATCH), wanted), 1e-5)
    # A bias of the keys adds the same to every score of a query, which the softmax takes away again.
    assert blind == {name for name, _ in model.named_parameters() if name.endswith("key.bias")}


@every_oracle
@pytest.mark.parametrize(
    ("mask", "broken"),
    [
        ("causal_mask", lambda length, device: torch.ones(1, 1, length, length, dtype=torch.bool)),
        ("key_mask", lambda valid, queries: torch.ones_like(valid)[:, None, None, :].expand(-1, -1, queries, -1)),
    ],
)
def test_a_mask_that_hides_nothing_is_seen(oracle, mask, broken, monkeypatch):
    model = translator()
    wanted = oracle(model)
    monkeypatch.setattr(seq2seq, mask, broken)
    assert difference(logits_of(model, BATCH), wanted) > 1e-3


@every_oracle
def test_another_epsilon_is_seen(oracle):
    wanted = oracle(translator())
    assert difference(logits_of(translator(norm_eps=1e-6), BATCH), wanted) > 1e-7


def test_positions_that_do_not_alternate_are_seen():
    model = translator()
    wanted = marian_logits(model)
    table = model.positions.table
    model.positions.table = torch.cat([table[:, 0::2], table[:, 1::2]], dim=1)
    assert difference(logits_of(model, BATCH), wanted) > 1e-3
