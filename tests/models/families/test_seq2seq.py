import dataclasses

import pytest
import torch

from attendant.errors import ConfigError
from models.families.seq2seq import Seq2SeqConfig, Seq2SeqTransformer
from tests.models.agreement import difference
from tests.models.families.translation import CONFIG, SOURCE_LENGTHS, VARIANTS, logits_of, random_batch, translator

BATCH = random_batch()
OTHER = random_batch(seed=9)
ROWS = range(len(SOURCE_LENGTHS))


def mixed(row):
    """The batch with one row taken from another batch."""
    keep = torch.arange(len(SOURCE_LENGTHS)) != row
    return BATCH.replaced(
        source_ids=torch.where(keep[:, None], BATCH.source_ids, OTHER.source_ids),
        target_ids=torch.where(keep[:, None], BATCH.target_ids, OTHER.target_ids),
    )


@pytest.mark.parametrize("row", ROWS)
def test_another_row_of_the_batch_changes_no_logit_of_this_one(row):
    model = translator()
    before, after = logits_of(model, BATCH), logits_of(model, mixed(row))
    others = [other for other in ROWS if other != row]
    assert difference(after[others], before[others]) <= 1e-12
    assert difference(after[row], before[row]) > 1e-3


@pytest.mark.parametrize("row", ROWS)
def test_a_row_alone_and_without_padding_has_the_logits_that_it_has_in_the_batch(row):
    model = translator()
    assert difference(logits_of(model, BATCH.row(row))[0], logits_of(model, BATCH)[row]) <= 1e-12


def test_what_stands_in_the_padding_does_not_matter():
    model = translator()
    other_padding = torch.where(BATCH.source_mask, BATCH.source_ids, 7)
    assert difference(logits_of(model, BATCH.replaced(source_ids=other_padding)), logits_of(model, BATCH)) <= 1e-12


@pytest.mark.parametrize("position", [1, 3, 5])
def test_a_target_token_changes_its_own_and_later_logits_and_no_earlier_one(position):
    model, target_ids = translator(), BATCH.target_ids.clone()
    target_ids[:, position] = 3 + (target_ids[:, position] - 2) % (CONFIG.vocabulary_size - 3)
    before, after = logits_of(model, BATCH), logits_of(model, BATCH.replaced(target_ids=target_ids))
    assert torch.equal(after[:, :position], before[:, :position])  # what is masked has a weight of exactly zero
    assert ((after[:, position:] - before[:, position:]).abs().amax(-1) > 1e-6).all()


def test_a_source_that_is_all_padding_gives_numbers_all_the_same():
    model, source_mask = translator(), BATCH.source_mask.clone()
    source_mask[2] = False
    logits = logits_of(model, BATCH.replaced(source_mask=source_mask))
    assert logits.isfinite().all()
    assert difference(logits[:2], logits_of(model, BATCH)[:2]) <= 1e-12


def test_the_order_of_the_source_matters():
    model = translator()
    source_ids = BATCH.source_ids.clone()
    source_ids[0] = source_ids[0].flip(0)
    assert difference(logits_of(model, BATCH.replaced(source_ids=source_ids))[0], logits_of(model, BATCH)[0]) > 1e-3


def test_one_matrix_serves_sources_targets_and_logits():
    state = Seq2SeqTransformer(CONFIG).state_dict()
    by_vocabulary = [name for name, tensor in state.items() if CONFIG.vocabulary_size in tensor.shape]
    assert by_vocabulary == ["embedding.weight"]


def test_untied_every_side_has_a_matrix_of_its_own():
    state = Seq2SeqTransformer(dataclasses.replace(CONFIG, tied=False)).state_dict()
    by_vocabulary = {name for name, tensor in state.items() if CONFIG.vocabulary_size in tensor.shape}
    assert by_vocabulary == {"embedding.weight", "target_embedding.weight", "head.weight"}


def test_the_bias_of_the_logits_is_stored_but_not_trained():
    model = translator(logits_bias=True)
    assert "logits_bias" in model.state_dict()
    assert "logits_bias" not in dict(model.named_parameters())
    assert "logits_bias" not in translator().state_dict()


def test_encoder_and_decoder_may_have_different_numbers_of_blocks():
    model = translator(layers=1, decoder_layers=3)
    assert (len(model.encoder), len(model.decoder), model.config.decoder_blocks) == (1, 3, 3)
    assert len(model.cross_keys_and_values(torch.zeros(1, 1, CONFIG.width, dtype=torch.float64))) == 3


def test_learned_positions_may_have_an_odd_width():
    translator(width=15, heads=3, positions="learned")


def test_the_start_may_be_padding_or_the_end():
    assert dataclasses.replace(CONFIG, start_token=0).start_token == CONFIG.pad_token
    assert dataclasses.replace(CONFIG, start_token=2).start_token == CONFIG.end_token


def test_dropout_acts_in_training_and_rests_in_evaluation():
    model = translator(dropout=0.5)
    assert torch.equal(logits_of(model, BATCH), logits_of(model, BATCH))  # the same computation twice, in one process
    model.train()
    assert difference(logits_of(model, BATCH), logits_of(model, BATCH)) > 1e-3


def test_dropout_falls_on_embeddings_with_their_positions_and_behind_every_sublayer():
    model = translator(dropout=0.5).train()
    dropped = []
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout) and module.p:
            module.register_forward_hook(lambda _, __, output: dropped.append((output == 0).double().mean().item()))
    logits_of(model, BATCH)
    assert len(dropped) == 2 + CONFIG.layers * (2 + 3)
    assert all(0.35 < share < 0.65 for share in dropped)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_parameter_is_trained(variant):
    model = Seq2SeqTransformer(dataclasses.replace(CONFIG, **VARIANTS[variant])).double()
    logits_of(model, BATCH).square().sum().backward()
    untrained = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    assert untrained == []


def test_the_model_takes_the_longest_source_and_target_of_its_configuration_and_no_longer():
    model = Seq2SeqTransformer(dataclasses.replace(CONFIG, max_source_length=5, max_target_length=3)).eval()
    source_ids = torch.full((1, 5), 3)
    logits = model(source_ids, source_ids > 0, torch.full((1, 3), 3))
    assert logits.shape == (1, 3, CONFIG.vocabulary_size)
    with pytest.raises(IndexError, match="index out of range"):
        model.encode(torch.full((1, 6), 3), torch.full((1, 6), True))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"vocabulary_size": 0}, "vocabulary_size to be a positive integer; found 0"),
        ({"layers": -1}, "layers to be a positive integer; found -1"),
        ({"layers": True}, "layers to be a positive integer; found True"),
        ({"width": 16.0}, "width to be a positive integer; found 16.0"),
        ({"heads": 0}, "heads to be a positive integer; found 0"),
        ({"mlp_width": "24"}, "mlp_width to be a positive integer; found '24'"),
        ({"max_source_length": 0}, "max_source_length to be a positive integer"),
        ({"max_target_length": None}, "max_target_length to be a positive integer; found None"),
        ({"width": 18, "heads": 4}, "width to be a multiple of 4 heads; found 18"),
        ({"width": 15, "heads": 3}, "an even width, half sines and half cosines; found 15"),
        ({"dropout": 1.0}, r"dropout in \[0, 1\); found 1.0"),
        ({"dropout": -0.1}, r"dropout in \[0, 1\); found -0.1"),
        ({"dropout": float("nan")}, r"dropout in \[0, 1\); found nan"),
        ({"norm_eps": "1e-5"}, r"norm_eps in \[0, 1\); found '1e-5'"),
        ({"attention_bias": "no"}, "attention_bias"),
        ({"pad_token": "0"}, "pad_token inside the vocabulary of 19; found '0'"),
        ({"end_token": 19}, "end_token inside the vocabulary of 19; found 19"),
        ({"start_token": -1}, "start_token inside the vocabulary of 19; found -1"),
        ({"start_token": 1.0}, "start_token inside the vocabulary of 19; found 1.0"),
        ({"decoder_layers": 0}, "decoder_blocks to be a positive integer; found 0"),
        ({"norm_order": "both"}, "norm_order, one of .*post.*; found 'both'"),
        ({"activation": "swish"}, "activation, one of .*silu.*; found 'swish'"),
        ({"positions": "sinusoids"}, "positions, one of .*learned.*; found 'sinusoids'"),
        ({"scaled_embedding": 1.0}, "scaled_embedding to be true or false; found 1.0"),
        ({"embedding_norm": 0}, "embedding_norm to be true or false; found 0"),
        ({"tied": None}, "tied to be true or false; found None"),
        ({"logits_bias": "yes"}, "logits_bias to be true or false; found 'yes'"),
    ],
    ids=str,
)
def test_a_configuration_that_no_model_can_have_is_refused(changes, expected):
    with pytest.raises(ConfigError, match=expected):
        dataclasses.replace(CONFIG, **changes)


def test_a_configuration_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        CONFIG.layers = 3


def test_the_defaults_are_the_base_model_of_the_paper():
    config = Seq2SeqConfig(vocabulary_size=37000)
    assert (config.layers, config.width, config.heads, config.mlp_width) == (6, 512, 8, 2048)
    assert (config.dropout, config.head_size) == (0.1, 64)
