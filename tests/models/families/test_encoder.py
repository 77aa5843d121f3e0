import dataclasses

import pytest
import torch
from torch import nn

from attendant.errors import ConfigError
from models.families import encoder
from models.families.encoder import Encoder, EncoderConfig
from tests.models.agreement import agrees_in_both_precisions, difference, parameters_that_do_not_matter, randomised
from tests.models.families.encoder_weights import bert_from_ours
from tests.models.families.torch_transformer_weights import stack_from_ours

CONFIG = EncoderConfig(
    vocabulary_size=19, token_types=3, layers=2, width=16, heads=2, mlp_width=24, max_length=9, norm_eps=1e-6
)
LENGTHS = (7, 4, 1)
MASK = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
TOKEN_IDS = torch.randint(1, 19, MASK.shape, generator=torch.Generator().manual_seed(1)) * MASK
TOKEN_TYPES = torch.randint(0, 3, MASK.shape, generator=torch.Generator().manual_seed(2))


def reader(dtype=torch.float64, **changes):
    torch.manual_seed(0)
    return randomised(Encoder(dataclasses.replace(CONFIG, **changes)), dtype)


def visible(hidden, pooled):
    """All that means something: the vectors of tokens, and the pooled ones."""
    return torch.cat([hidden[MASK], pooled])


def ours(model):
    return visible(*model(TOKEN_IDS, MASK, TOKEN_TYPES))


def by_bert(model):
    found = bert_from_ours(model)(input_ids=TOKEN_IDS, attention_mask=MASK.long(), token_type_ids=TOKEN_TYPES)
    return visible(found.last_hidden_state, found.pooler_output)


def by_torch(model):
    """torch.nn's layers between our embeddings and our pooler."""
    layer = nn.TransformerEncoderLayer(
        CONFIG.width, CONFIG.heads, CONFIG.mlp_width, 0.0, "gelu", model.config.norm_eps, batch_first=True
    )
    embedded = model.embedding.weight[TOKEN_IDS] + model.token_types.weight[TOKEN_TYPES]
    normed = model.norm(embedded + model.positions.weight[: MASK.shape[1]])
    hidden = stack_from_ours(model.blocks, layer, None)(normed, src_key_padding_mask=~MASK)
    return visible(hidden, model.pooler(hidden[:, 0]).tanh())


every_oracle = pytest.mark.parametrize("oracle", [by_bert, by_torch])


@agrees_in_both_precisions
@every_oracle
def test_it_equals_the_stranger_with_the_same_weights(oracle, dtype):
    model = reader(dtype)
    yield ours(model), oracle(model)


@agrees_in_both_precisions
def test_with_the_epsilon_of_bert_it_equals_bert(dtype):
    model = reader(dtype, norm_eps=1e-12)
    yield ours(model), by_bert(model)


def test_it_has_as_many_parameters_as_bert():
    model = reader()
    counts = [sum(one.numel() for one in each.parameters()) for each in (model, bert_from_ours(model))]
    assert counts[0] == counts[1]


@pytest.mark.planted
def test_a_change_of_any_parameter_but_the_biases_of_keys_is_seen():
    model = reader()
    wanted = by_bert(model)
    blind = parameters_that_do_not_matter(model, lambda: difference(ours(model), wanted))
    # A bias of the keys adds the same to every score of a query, which the softmax takes away again.
    assert blind == {name for name, _ in model.named_parameters() if name.endswith("key.bias")}


@pytest.mark.planted
@every_oracle
def test_a_mask_that_hides_nothing_is_seen(oracle, monkeypatch):
    model = reader()
    wanted = oracle(model)
    monkeypatch.setattr(encoder, "key_mask", lambda valid, queries: torch.ones_like(valid)[:, None, None, :])
    assert difference(ours(model), wanted) > 1e-3


@pytest.mark.planted
@every_oracle
@pytest.mark.parametrize("changes", [{"norm_eps": 1e-12}, {"activation": "gelu_tanh"}], ids=str)
def test_another_setting_without_weights_is_seen(oracle, changes):
    wanted = oracle(reader())
    assert difference(ours(reader(**changes)), wanted) > 1e-6


@pytest.mark.parametrize("row", range(len(LENGTHS)))
def test_a_row_alone_and_without_padding_gives_what_it_gives_in_the_batch(row):
    model, length = reader(), LENGTHS[row]
    hidden, pooled = model(TOKEN_IDS, MASK, TOKEN_TYPES)
    alone = model(*(part[[row], :length] for part in (TOKEN_IDS, MASK, TOKEN_TYPES)))
    assert difference(alone[0][0], hidden[row, :length]) <= 1e-12
    assert difference(alone[1][0], pooled[row]) <= 1e-12


def test_what_stands_in_the_padding_does_not_matter_and_is_finite():
    model = reader()
    hidden, pooled = model(torch.where(MASK, TOKEN_IDS, 7), MASK, torch.where(MASK, TOKEN_TYPES, 0))
    assert difference(visible(hidden, pooled), ours(model)) <= 1e-12
    assert hidden.isfinite().all()


def test_a_row_of_padding_alone_gives_numbers_all_the_same():
    model, mask = reader(), MASK.clone()
    mask[2] = False
    hidden, pooled = model(TOKEN_IDS, mask, TOKEN_TYPES)
    assert hidden.isfinite().all()
    assert pooled.isfinite().all()
    assert difference(pooled[:2], model(TOKEN_IDS, MASK, TOKEN_TYPES)[1][:2]) <= 1e-12


def test_every_token_sees_those_before_and_those_behind_it():
    model, token_ids = reader(), TOKEN_IDS.clone()
    token_ids[0, 3] = 1 + token_ids[0, 3] % 18
    moved = (model(token_ids, MASK, TOKEN_TYPES)[0] - model(TOKEN_IDS, MASK, TOKEN_TYPES)[0]).abs().amax(-1)
    assert (moved[0] > 1e-6).all()
    assert moved[1:].max() <= 1e-12


def test_dropout_falls_on_embeddings_and_behind_every_sublayer_and_rests_in_evaluation():
    model = reader(dropout=0.5)
    assert torch.equal(ours(model), ours(model))  # the same computation twice, in one process
    dropped = []
    for module in model.train().modules():
        if isinstance(module, nn.Dropout) and module.p:
            module.register_forward_hook(lambda _, __, output: dropped.append((output == 0).double().mean().item()))
    ours(model)
    assert len(dropped) == 1 + CONFIG.layers * 2
    assert all(0.35 < share < 0.65 for share in dropped)


def test_every_parameter_is_trained():
    model = Encoder(CONFIG).double()
    ours(model).square().sum().backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []


def test_the_model_takes_the_longest_sequence_of_its_configuration_and_no_longer():
    model, tokens = reader(), torch.full((1, 10), 3)
    hidden, _ = model(tokens[:, :9], tokens[:, :9] > 0, tokens[:, :9] * 0)
    assert hidden.shape == (1, 9, CONFIG.width)
    with pytest.raises(IndexError, match="index out of range"):
        model(tokens, tokens > 0, tokens * 0)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"vocabulary_size": 0}, "vocabulary_size to be a positive integer; found 0"),
        ({"token_types": -1}, "token_types to be a positive integer; found -1"),
        ({"layers": 2.0}, "layers to be a positive integer; found 2.0"),
        ({"width": None}, "width to be a positive integer; found None"),
        ({"heads": "2"}, "heads to be a positive integer; found '2'"),
        ({"mlp_width": True}, "mlp_width to be a positive integer; found True"),
        ({"max_length": 0}, "max_length to be a positive integer; found 0"),
        ({"heads": 3}, "width to be a multiple of 3 heads; found 16"),
        ({"activation": "swish"}, "activation, one of .*gelu.*; found 'swish'"),
        ({"dropout": 1.0}, r"dropout in \[0, 1\); found 1.0"),
        ({"norm_eps": -1e-12}, r"norm_eps in \[0, 1\); found -1e-12"),
        ({"pad_token": 19}, "pad_token inside the vocabulary of 19; found 19"),
    ],
    ids=str,
)
def test_a_configuration_that_no_model_can_have_is_refused(changes, expected):
    with pytest.raises(ConfigError, match=expected):
        dataclasses.replace(CONFIG, **changes)


def test_the_defaults_are_bert_base():
    config = EncoderConfig()
    assert (config.layers, config.width, config.heads, config.mlp_width) == (12, 768, 12, 3072)
    assert (config.activation, config.norm_eps, config.dropout) == ("gelu", 1e-12, 0.1)
