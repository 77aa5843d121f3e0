import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attendant.errors import ConfigError
from models.families import encoder_decoder
from models.families.vision_seq2seq import VisionSeq2Seq
from models.presets import PRESETS
from models.size import parts_of
from tests.models.agreement import EXACT, agrees_in_both_precisions, difference, parameters_that_do_not_matter
from tests.models.families.cached_decoding import (
    any_pieces,
    seen_mask,
    stale_caches,
    step_by_step_and_at_once,
    worst_difference,
)
from tests.models.families.captioning import (
    CONFIG,
    ENCODER,
    ROWS,
    TARGET_LENGTH,
    TROCR,
    VARIANTS,
    captioner,
    image_batch,
)
from tests.models.families.torch_transformer_weights import torch_decoder_from_ours
from tests.models.families.translation import logits_of
from tests.models.families.vision_encoder_weights import memory_by_others
from tests.models.families.vision_seq2seq_weights import logits_by_stranger, stranger_from_ours
from tests.models.float64_oracles import oracle_precision

BATCH = image_batch()
MODEL = captioner()
BY_TORCH = ("CPTR", "CNN and Transformer")
every_variant = pytest.mark.parametrize("variant", VARIANTS)


def logits_by_torch(model, batch):
    """torch.nn's decoder behind others' encoders, with our embeddings and positions."""
    length = batch.target_ids.shape[1]
    scaled = model.embedding.weight[batch.target_ids] * model.config.width**0.5
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    embedded = scaled + model.target_encoding.positions.table[:length]
    memory = memory_by_others(model.encoder, model.config.encoder, batch.pixels)
    return torch_decoder_from_ours(model)(embedded, memory, tgt_mask=future) @ model.head.weight.T


def logits_by_others(variant, model, batch):
    with oracle_precision(batch.pixels.dtype):
        return (logits_by_torch if variant in BY_TORCH else logits_by_stranger)(model, batch)


@agrees_in_both_precisions
@every_variant
def test_it_equals_the_stranger_with_the_same_weights(variant, dtype):
    model, batch = captioner(dtype, **VARIANTS[variant]), image_batch(dtype)
    yield logits_of(model, batch), logits_by_others(variant, model, batch)


@pytest.mark.parametrize("variant", [variant for variant in VARIANTS if variant not in BY_TORCH])
def test_it_has_as_many_parameters_as_the_stranger(variant):
    model = captioner(**VARIANTS[variant])
    theirs = stranger_from_ours(model)
    assert sum(one.numel() for one in model.parameters()) == sum(one.numel() for one in theirs.parameters())


@pytest.mark.planted
@every_variant
def test_a_change_of_any_parameter_but_the_biases_of_keys_is_seen(variant):
    model = captioner(**VARIANTS[variant])
    wanted = logits_by_others(variant, model, BATCH)
    blind = parameters_that_do_not_matter(model, lambda: difference(logits_of(model, BATCH), wanted))
    # A bias of the keys adds the same to every score of a query, which the softmax takes away again.
    assert blind == {name for name, _ in model.named_parameters() if name.endswith("key.bias")}


@pytest.mark.planted
def test_a_mask_that_shows_the_future_is_seen(monkeypatch):
    wanted = logits_by_torch(MODEL, BATCH)
    everything = lambda length, device: torch.ones(1, 1, length, length, dtype=torch.bool)  # noqa: E731
    monkeypatch.setattr(encoder_decoder, "causal_mask", everything)
    assert difference(logits_of(MODEL, BATCH), wanted) > 1e-3


@pytest.mark.planted
@pytest.mark.parametrize(
    ("variant", "changes"),
    [
        ("CPTR", {"activation": "gelu"}),
        ("CPTR", {"positions": "concatenated"}),
        ("CPTR", {"scaled_embedding": False}),
        ("CPTR", {"norm_eps": 1e-6}),
        ("GPT-2", {"activation": "gelu"}),
        ("GPT-2", {"norm_eps": 1e-6}),
        ("TrOCR", {"scaled_embedding": True}),
        ("TrOCR", {"activation": "gelu_tanh"}),
    ],
    ids=str,
)
def test_another_setting_without_weights_is_seen(variant, changes):
    wanted = logits_by_others(variant, captioner(**VARIANTS[variant]), BATCH)
    assert difference(logits_of(captioner(**{**VARIANTS[variant], **changes}), BATCH), wanted) > 1e-7


@pytest.mark.planted
def test_learned_positions_that_are_off_by_one_are_seen():
    model = captioner(**TROCR)
    wanted = logits_by_stranger(model, BATCH)
    model.target_encoding.positions.offset = 1
    assert difference(logits_of(model, BATCH), wanted) > 1e-3


@pytest.mark.planted
def test_another_epsilon_of_the_encoder_is_seen():
    model = captioner(**TROCR)
    assert difference(logits_of(model, BATCH), logits_by_stranger(model, BATCH, layer_norm_eps=1e-12)) > 1e-8


@given(pieces=any_pieces(), spare=st.integers(0, 3))
def test_any_split_of_a_cached_decode_equals_the_full_forward(pieces, spare):
    assert worst_difference(MODEL, BATCH, pieces, spare=spare) <= EXACT


@every_variant
def test_rows_that_advance_at_different_paces_equal_the_full_forward_of_every_variant(variant):
    model = captioner(**VARIANTS[variant])
    assert worst_difference(model, BATCH, [[2, 1, 3], [4, 1, 1], [1, 0, 5]], spare=2) <= EXACT


@agrees_in_both_precisions
def test_single_steps_equal_the_full_forward(dtype):
    yield from step_by_step_and_at_once(captioner(dtype), image_batch(dtype))


@pytest.mark.planted
def test_a_start_that_is_wrong_by_one_is_seen():
    assert worst_difference(MODEL, BATCH, [[2, 4]] * ROWS, start_error=1) > 1e-3


@pytest.mark.planted
def test_a_mask_that_shows_what_another_request_left_is_seen():
    start = torch.zeros(ROWS, dtype=torch.long)
    crosses, caches = MODEL.cross_keys_and_values(MODEL.encode(BATCH.pixels)), stale_caches(MODEL, ROWS)
    mask = seen_mask(start, TARGET_LENGTH, TARGET_LENGTH + 1)
    mask[..., -1] = True
    wrong, _ = MODEL.decode_cached(BATCH.target_ids, start, mask, None, caches, crosses)
    assert difference(wrong, logits_of(MODEL, BATCH)) > 1e-3


@every_variant
@pytest.mark.parametrize("row", range(ROWS))
def test_a_row_depends_on_its_own_image_and_on_no_other(variant, row):
    model = captioner(**VARIANTS[variant])
    together = logits_of(model, BATCH)
    assert difference(logits_of(model, BATCH.row(row)), together[[row]]) <= 1e-12
    pixels = BATCH.pixels.clone()
    pixels[row] += 1.0 * torch.arange(12)
    changed = logits_of(model, BATCH.replaced(pixels=pixels))
    others = [other for other in range(ROWS) if other != row]
    assert difference(changed[others], together[others]) <= 1e-12
    assert difference(changed[row], together[row]) > 1e-3


def test_the_weights_of_the_image_sum_to_one_over_its_tokens():
    seen = []
    for block in MODEL.decoder:
        block.cross_attention.attend.observer = seen.append
    try:
        logits_of(MODEL, BATCH)
    finally:
        for block in MODEL.decoder:
            block.cross_attention.attend.observer = None
    assert [tuple(weights.shape) for weights in seen] == [(ROWS, CONFIG.heads, TARGET_LENGTH, ENCODER.tokens)] * 2
    assert all(difference(weights.sum(-1), torch.ones(weights.shape[:3]).double()) <= 1e-12 for weights in seen)


@every_variant
def test_every_parameter_is_trained(variant):
    model = VisionSeq2Seq(dataclasses.replace(CONFIG, **VARIANTS[variant])).double()
    logits_of(model, BATCH).square().sum().backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []


def test_dropout_acts_in_training_and_rests_in_evaluation():
    model = captioner()
    assert torch.equal(logits_of(model, BATCH), logits_of(model, BATCH))  # the same computation twice, in one process
    model.train()
    assert difference(logits_of(model, BATCH), logits_of(model, BATCH)) > 1e-3


def test_cptr_has_the_encoder_and_the_decoder_layers_that_were_counted_elsewhere():
    with torch.device("meta"):
        parts = parts_of(VisionSeq2Seq(PRESETS["captioner-cptr"].config))
    assert parts == {"encoder": 86_090_496, "embedding": 7_680_000, "decoder": 37_807_104, "head": 7_680_000}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"encoder": None}, "encoder to be a VisionEncoderConfig; found NoneType"),
        ({"vocabulary_size": 0}, "vocabulary_size to be a positive integer; found 0"),
        ({"decoder_blocks": 0}, "decoder_blocks to be a positive integer; found 0"),
        ({"max_target_length": "8"}, "max_target_length to be a positive integer; found '8'"),
        ({"heads": 5}, "width to be a multiple of 5 heads; found 12"),
        ({"width": 9, "heads": 3}, "an even width, half sines and half cosines; found 9"),
        ({"position_offset": -1}, "position_offset to be zero or a positive integer; found -1"),
        ({"position_offset": True}, "position_offset to be zero or a positive integer; found True"),
        ({"norm_order": "both"}, "norm_order, one of"),
        ({"activation": "tanh"}, "activation, one of"),
        ({"positions": "rope"}, "positions, one of"),
        ({"projected_memory": 1}, "projected_memory to be true or false; found 1"),
        ({"dropout": 1.0}, r"dropout in \[0, 1\); found 1.0"),
        ({"end_token": 19}, "end_token inside the vocabulary of 19; found 19"),
    ],
    ids=str,
)
def test_a_configuration_that_no_model_can_have_is_refused(changes, expected):
    with pytest.raises(ConfigError, match=expected):
        dataclasses.replace(CONFIG, **changes)
