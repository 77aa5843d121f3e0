import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from attendant.errors import ConfigError
from models.families import encoder_decoder
from models.families.t5 import T5, T5Config
from models.layers.attention import MultiHeadAttention
from models.layers.relative_position import RelativePositionBias
from tests.models.agreement import (
    EXACT,
    agrees_in_both_precisions,
    difference,
    parameters_that_do_not_matter,
    randomised,
)
from tests.models.families.cached_decoding import any_pieces, step_by_step_and_at_once, worst_difference
from tests.models.families.t5_weights import stranger_from_ours
from tests.models.families.translation import logits_of, random_batch
from tests.models.float64_oracles import oracle_precision

CONFIG = T5Config(
    vocabulary_size=19,
    layers=2,
    width=16,
    heads=2,
    head_size=4,
    mlp_width=24,
    distance_buckets=8,
    longest_distance=5,
    max_source_length=10,
    max_target_length=14,
)
VERSIONS = {
    "first": {},
    "1.1": {
        "activation": "gelu_tanh",
        "gated_mlp": True,
        "tied": False,
        "heads": 3,
        "head_size": 8,
        "decoder_layers": 1,
    },
}
BATCH = random_batch()
ROWS = len(BATCH.target_ids)
every_version = pytest.mark.parametrize("version", VERSIONS)


def translator(dtype=torch.float64, version="first", **changes):
    torch.manual_seed(0)
    return randomised(T5(dataclasses.replace(CONFIG, **{**VERSIONS[version], **changes})), dtype)


def strangers_logits(model, batch=BATCH):
    theirs = stranger_from_ours(model)
    with oracle_precision(model.embedding.weight.dtype):
        return theirs(
            input_ids=batch.source_ids,
            attention_mask=batch.source_mask.long(),
            decoder_input_ids=batch.target_ids,
            use_cache=False,
        ).logits


@agrees_in_both_precisions
@every_version
def test_it_equals_the_stranger_with_the_same_weights(version, dtype):
    model = translator(dtype, version)
    yield logits_of(model, BATCH), strangers_logits(model)


@agrees_in_both_precisions
@every_version
def test_with_the_published_buckets_it_equals_the_stranger_beyond_the_longest_distance(version, dtype):
    model = translator(dtype, version, distance_buckets=32, longest_distance=128)
    generator = torch.Generator().manual_seed(3)
    source_ids, target_ids = torch.randint(2, CONFIG.vocabulary_size, (2, 1, 140), generator=generator)
    batch = BATCH.replaced(source_ids=source_ids, source_mask=source_ids > 0, target_ids=target_ids)
    yield logits_of(model, batch), strangers_logits(model, batch)


@every_version
def test_it_has_as_many_parameters_as_the_stranger(version):
    model = translator(version=version)
    counts = [sum(one.numel() for one in each.parameters()) for each in (model, stranger_from_ours(model))]
    assert counts[0] == counts[1]


@pytest.mark.planted
@every_version
def test_a_change_of_any_parameter_is_seen(version):
    model = translator(version=version)
    wanted = strangers_logits(model)
    blind = parameters_that_do_not_matter(model, lambda: difference(logits_of(model, BATCH), wanted))
    assert blind == set()


@pytest.mark.planted
@pytest.mark.parametrize(
    ("mask", "broken"),
    [
        ("causal_mask", lambda length, device: torch.ones(1, 1, length, length, dtype=torch.bool)),
        ("key_mask", lambda valid, queries: torch.ones_like(valid)[:, None, None, :].expand(-1, -1, queries, -1)),
    ],
)
def test_a_mask_that_hides_nothing_is_seen(mask, broken, monkeypatch):
    model = translator()
    wanted = strangers_logits(model)
    monkeypatch.setattr(encoder_decoder, mask, broken)
    assert difference(logits_of(model, BATCH), wanted) > 1e-3


@pytest.mark.planted
def test_scores_that_are_scaled_are_seen():
    model = translator()
    wanted = strangers_logits(model)
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            module.attend.scale = None
    assert difference(logits_of(model, BATCH), wanted) > 1e-3


@pytest.mark.planted
@pytest.mark.parametrize("side", ["encoder_bias", "decoder_bias"])
def test_distances_counted_the_other_way_are_seen(side):
    model = translator()
    wanted = strangers_logits(model)
    layer = getattr(model, side)
    layer.buckets = layer.buckets.flip(0)
    assert difference(logits_of(model, BATCH), wanted) > 1e-3


@pytest.mark.planted
def test_a_one_way_bias_in_the_encoder_is_seen():
    model = translator()
    wanted = strangers_logits(model)
    one_way = RelativePositionBias(CONFIG.heads, CONFIG.distance_buckets, CONFIG.longest_distance, False)
    one_way.weight = model.encoder_bias.weight
    model.encoder_bias = one_way
    assert difference(logits_of(model, BATCH), wanted) > 1e-3


@pytest.mark.planted
@pytest.mark.parametrize(
    ("version", "changes"),
    [
        ("first", {"norm_eps": 1e-5}),
        ("first", {"activation": "silu"}),
        ("1.1", {"activation": "gelu"}),
        ("first", {"longest_distance": 6}),
    ],
    ids=str,
)
def test_another_setting_without_weights_is_seen(version, changes):
    wanted = strangers_logits(translator(version=version))
    assert difference(logits_of(translator(version=version, **changes), BATCH), wanted) > 1e-7


def test_only_the_shared_matrix_is_scaled_on_the_way_out():
    hidden = torch.randn(1, 1, CONFIG.width, dtype=torch.float64)
    tied, untied = translator(), translator(version="1.1")
    assert difference(tied.logits(hidden), hidden @ tied.embedding.weight.T / 4) <= 1e-12
    assert difference(untied.logits(hidden), hidden @ untied.head.weight.T) <= 1e-12


def test_each_stack_has_one_bias_for_all_of_its_blocks():
    names = [name for name in translator().state_dict() if "bias" in name]
    assert names == ["encoder_bias.weight", "decoder_bias.weight"]


MODEL = translator()
FULL = logits_of(MODEL, BATCH)


@given(pieces=any_pieces(), spare=st.integers(0, 3))
def test_any_split_of_a_cached_decode_equals_the_full_forward(pieces, spare):
    assert worst_difference(MODEL, BATCH, pieces, spare=spare) <= EXACT


@agrees_in_both_precisions
@every_version
def test_single_steps_equal_the_full_forward_of_every_version(version, dtype):
    model = translator(dtype, version)
    yield from step_by_step_and_at_once(model, BATCH)


@pytest.mark.planted
def test_a_bias_that_forgets_where_the_rows_begin_is_seen(monkeypatch):
    forgetful = encoder_decoder._bias

    def from_zero(layer, positions, keys):
        return forgetful(layer, positions - positions[:, :1], keys)

    monkeypatch.setattr(encoder_decoder, "_bias", from_zero)
    assert worst_difference(MODEL, BATCH, [[2, 4]] * ROWS) > 1e-3


@pytest.mark.planted
def test_a_start_that_is_wrong_by_one_is_seen():
    assert worst_difference(MODEL, BATCH, [[2, 4]] * ROWS, start_error=1) > 1e-3


@pytest.mark.parametrize("row", range(ROWS))
def test_a_row_alone_and_without_padding_has_the_logits_that_it_has_in_the_batch(row):
    assert difference(logits_of(MODEL, BATCH.row(row))[0], FULL[row]) <= 1e-12


def test_a_source_that_is_all_padding_gives_numbers_all_the_same():
    source_mask = BATCH.source_mask.clone()
    source_mask[2] = False
    logits = logits_of(MODEL, BATCH.replaced(source_mask=source_mask))
    assert logits.isfinite().all()
    assert difference(logits[:2], FULL[:2]) <= 1e-12


def test_the_order_of_the_source_matters():
    source_ids = BATCH.source_ids.clone()
    source_ids[0] = source_ids[0].flip(0)
    assert difference(logits_of(MODEL, BATCH.replaced(source_ids=source_ids))[0], FULL[0]) > 1e-3


def test_dropout_falls_on_both_ends_of_each_stack_and_behind_every_sublayer_and_rests_in_evaluation():
    model = translator(dropout=0.5)
    assert torch.equal(logits_of(model, BATCH), logits_of(model, BATCH))  # the same computation twice, in one process
    dropped = []
    for module in model.train().modules():
        if isinstance(module, nn.Dropout) and module.p:
            module.register_forward_hook(lambda _, __, output: dropped.append((output == 0).double().mean().item()))
    logits_of(model, BATCH)
    assert len(dropped) == 2 * 2 + CONFIG.layers * (2 + 3)
    assert all(0.35 < share < 0.65 for share in dropped)


@every_version
def test_every_parameter_is_trained(version):
    model = T5(dataclasses.replace(CONFIG, **VERSIONS[version])).double()
    logits_of(model, BATCH).square().sum().backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"vocabulary_size": 0}, "vocabulary_size to be a positive integer; found 0"),
        ({"layers": -1}, "layers to be a positive integer; found -1"),
        ({"decoder_layers": 0}, "decoder_blocks to be a positive integer; found 0"),
        ({"width": 16.0}, "width to be a positive integer; found 16.0"),
        ({"heads": None}, "heads to be a positive integer; found None"),
        ({"head_size": "4"}, "head_size to be a positive integer; found '4'"),
        ({"mlp_width": 0}, "mlp_width to be a positive integer; found 0"),
        ({"distance_buckets": 7}, "distance_buckets to be even and at least 4; found 7"),
        ({"distance_buckets": 2}, "distance_buckets to be even and at least 4; found 2"),
        ({"longest_distance": 4}, "longest_distance above half of the 8 distance_buckets; found 4"),
        ({"max_source_length": 0}, "max_source_length to be a positive integer; found 0"),
        ({"max_target_length": False}, "max_target_length to be a positive integer; found False"),
        ({"dropout": 1.0}, r"dropout in \[0, 1\); found 1.0"),
        ({"norm_eps": "1e-6"}, r"norm_eps in \[0, 1\); found '1e-6'"),
        ({"activation": "gated-gelu"}, "activation, one of .*gelu_tanh.*; found 'gated-gelu'"),
        ({"gated_mlp": 1}, "gated_mlp to be true or false; found 1"),
        ({"tied": None}, "tied to be true or false; found None"),
        ({"pad_token": 19}, "pad_token inside the vocabulary of 19; found 19"),
        ({"start_token": -1}, "start_token inside the vocabulary of 19; found -1"),
        ({"end_token": 1.0}, "end_token inside the vocabulary of 19; found 1.0"),
    ],
    ids=str,
)
def test_a_configuration_that_no_model_can_have_is_refused(changes, expected):
    with pytest.raises(ConfigError, match=expected):
        dataclasses.replace(CONFIG, **changes)


def test_the_defaults_are_t5_small():
    config = T5Config()
    assert (config.layers, config.width, config.heads, config.head_size, config.mlp_width) == (6, 512, 8, 64, 2048)
    assert (config.distance_buckets, config.longest_distance, config.start_token) == (32, 128, config.pad_token)
