"""The translators against strangers with the same weights, and proof that the comparisons are not blind."""

import pytest
import torch

from models.families import encoder_decoder
from models.layers.positional import sinusoids
from tests.models.agreement import agrees_in_both_precisions, difference, parameters_that_do_not_matter
from tests.models.families.seq2seq_weights import stranger_from_ours
from tests.models.families.torch_transformer_weights import logits_by_torch, torch_halves_from_ours
from tests.models.families.translation import BART, VARIANTS, logits_of, random_batch, translator

BATCH = random_batch()


def logits_by_transformers(model):
    return stranger_from_ours(model)(
        input_ids=BATCH.source_ids,
        attention_mask=BATCH.source_mask.long(),
        decoder_input_ids=BATCH.target_ids,
        use_cache=False,
    ).logits


def torch_logits(model):
    return logits_by_torch(model, *torch_halves_from_ours(model), BATCH)


# transformers has no pre-norm translator with sinusoids; torch.nn knows neither norms of embeddings nor logits biases.
PAIRS = [(variant, logits_by_transformers) for variant in VARIANTS if variant != "pre-norm"]
PAIRS += [("the paper's", torch_logits), ("pre-norm", torch_logits)]
every_pair = pytest.mark.parametrize(("variant", "oracle"), PAIRS, ids=lambda part: getattr(part, "__name__", part))
both_of_the_paper = pytest.mark.parametrize("oracle", [logits_by_transformers, torch_logits])


@agrees_in_both_precisions
@every_pair
def test_it_equals_the_stranger_with_the_same_weights(variant, oracle, dtype):
    model = translator(dtype, **VARIANTS[variant])
    yield logits_of(model, BATCH), oracle(model)


@pytest.mark.parametrize("variant", ["Marian", "Marian, untied", "BART", "mBART"])
def test_it_has_as_many_parameters_as_the_stranger_trains(variant):
    model = translator(**VARIANTS[variant], max_source_length=14)
    theirs = stranger_from_ours(model)
    fixed = [f"model.{half}.embed_positions.weight" for half in ("encoder", "decoder")] if "Marian" in variant else []
    trained = sum(one.numel() for name, one in theirs.named_parameters() if name not in fixed)
    assert sum(one.numel() for one in model.parameters()) == trained


@agrees_in_both_precisions
def test_without_attention_biases_it_equals_marian_with_zero_biases(dtype):
    model = translator(dtype, attention_bias=False)
    yield logits_of(model, BATCH), logits_by_transformers(model)


@agrees_in_both_precisions
def test_the_encoder_alone_equals_that_of_marian_wherever_there_is_a_token(dtype):
    model = translator(dtype)
    ours = model.encode(BATCH.source_ids, BATCH.source_mask)
    theirs = stranger_from_ours(model).model.encoder(BATCH.source_ids, BATCH.source_mask.long()).last_hidden_state
    yield ours[BATCH.source_mask], theirs[BATCH.source_mask]


@pytest.mark.planted
@every_pair
def test_a_change_of_any_parameter_but_the_biases_of_keys_is_seen(variant, oracle):
    model = translator(**VARIANTS[variant])
    wanted = oracle(model)
    blind = parameters_that_do_not_matter(model, lambda: difference(logits_of(model, BATCH), wanted))
    # A bias of the keys adds the same to every score of a query, which the softmax takes away again.
    assert blind == {name for name, _ in model.named_parameters() if name.endswith("key.bias")}


@pytest.mark.planted
@both_of_the_paper
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
    monkeypatch.setattr(encoder_decoder, mask, broken)
    assert difference(logits_of(model, BATCH), wanted) > 1e-3


@pytest.mark.planted
@pytest.mark.parametrize(("variant", "oracle"), [*PAIRS[:1], *PAIRS[-2:], ("mBART", logits_by_transformers)])
def test_another_epsilon_is_seen(variant, oracle):
    wanted = oracle(translator(**VARIANTS[variant]))
    assert difference(logits_of(translator(norm_eps=1e-6, **VARIANTS[variant]), BATCH), wanted) > 1e-7


@pytest.mark.planted
@pytest.mark.parametrize(("variant", "other"), [("the paper's", "concatenated"), ("Marian", "interleaved")])
def test_sinusoids_in_the_other_layout_are_seen(variant, other):
    model = translator(**VARIANTS[variant])
    wanted = logits_by_transformers(model)
    table = model.source_encoding.positions.table
    model.source_encoding.positions.table = sinusoids(*table.shape, other).double()
    assert difference(logits_of(model, BATCH), wanted) > 1e-3


@pytest.mark.planted
@pytest.mark.parametrize("side", ["source_encoding", "target_encoding"])
def test_learned_positions_that_are_off_by_one_are_seen(side):
    model = translator(**BART)
    wanted = logits_by_transformers(model)
    getattr(model, side).positions.offset = 1
    assert difference(logits_of(model, BATCH), wanted) > 1e-3


@pytest.mark.planted
@pytest.mark.parametrize("variant", ["Marian", "BART", "mBART"])
def test_another_bias_of_the_logits_is_seen(variant):
    model = translator(**VARIANTS[variant])
    wanted = logits_by_transformers(model)
    model.logits_bias[3] += 0.01
    assert difference(logits_of(model, BATCH), wanted) == pytest.approx(0.01)


@pytest.mark.planted
@pytest.mark.parametrize(
    ("variant", "changes"),
    [
        ("Marian", {"activation": "gelu"}),
        ("BART", {"activation": "gelu_tanh"}),
        ("Marian", {"scaled_embedding": False}),
        ("BART", {"scaled_embedding": True}),
    ],
    ids=str,
)
def test_another_setting_without_weights_is_seen(variant, changes):
    wanted = logits_by_transformers(translator(**VARIANTS[variant]))
    assert difference(logits_of(translator(**{**VARIANTS[variant], **changes}), BATCH), wanted) > 1e-5
