import pytest
import torch

from models.tasks.caption import decoder_signature, details, encoder_signature, graphs, typical_inputs
from tests.models.agreement import difference
from tests.models.families.cached_decoding import seen_mask
from tests.models.families.captioning import CONFIG, ENCODER, ROWS, TARGET_LENGTH, VARIANTS, captioner, image_batch
from tests.models.families.translation import logits_of

BATCH = image_batch()
EVERY = torch.arange(TARGET_LENGTH)[None].expand(ROWS, TARGET_LENGTH)
every_variant = pytest.mark.parametrize("variant", VARIANTS)


def names(specs):
    return [spec.name for spec in specs]


def test_the_encoder_turns_pixels_into_keys_and_values_of_every_block():
    signature = encoder_signature(CONFIG)
    assert [(spec.name, spec.axes) for spec in signature.inputs] == [("pixels", ("batch", 3, 12, 12))]
    assert names(signature.outputs) == ["cross_00_key", "cross_00_value", "cross_01_key", "cross_01_value"]
    assert {spec.axes for spec in signature.outputs} == {("batch", 2, ENCODER.tokens, 6)}


def test_the_decoder_takes_no_mask_of_the_image_and_writes_its_cache_in_place():
    signature = decoder_signature(CONFIG)
    assert names(signature.inputs)[:3] == ["token_ids", "start", "self_mask"]
    assert "source_mask" not in names(signature.inputs)
    assert signature.aliases == {
        f"self_{layer}_{part}_out": f"self_{layer}_{part}_in" for layer in ("00", "01") for part in ("key", "value")
    }


@every_variant
def test_what_the_encoder_gives_is_what_the_decoder_takes(variant):
    encoder, decoder = (graph.signature for graph in graphs(captioner(**VARIANTS[variant])))
    assert decoder.inputs[-len(encoder.outputs) :] == encoder.outputs


@every_variant
def test_encoder_and_decoder_graph_together_give_the_logits_of_the_model(variant):
    model = captioner(**VARIANTS[variant])
    encoder, decoder = graphs(model)
    crosses = encoder.module(BATCH.pixels)
    shapes = [spec.shape({"batch": ROWS}) for spec in decoder.signature.inputs if spec.name.endswith("_in")]
    held = [torch.zeros(shape, dtype=torch.float64) for shape in shapes]
    logits = []
    for begin, end in ((0, 2), (2, 3), (3, TARGET_LENGTH)):
        start = torch.full((ROWS,), begin)
        mask = seen_mask(start, end - begin, end)
        scores, *held = decoder.module(
            BATCH.target_ids[:, begin:end], start, mask, EVERY[:, : end - begin], *held, *crosses
        )
        logits.append(scores)
    assert difference(torch.cat(logits, dim=1), logits_of(model, BATCH)) <= 1e-12


@pytest.mark.planted
def test_keys_in_the_place_of_values_are_seen():
    model = captioner()
    encoder, decoder = graphs(model)
    start = torch.zeros(ROWS, dtype=torch.int64)
    shapes = [spec.shape({"batch": ROWS}) for spec in decoder.signature.inputs if spec.name.endswith("_in")]
    caches = [torch.zeros(shape, dtype=torch.float64) for shape in shapes]
    inputs = BATCH.target_ids, start, seen_mask(start, TARGET_LENGTH, TARGET_LENGTH), EVERY, *caches
    logits, *_ = decoder.module(*inputs, *reversed(encoder.module(BATCH.pixels)))
    assert difference(logits, logits_of(model, BATCH)) > 1e-3


def test_the_details_are_token_ids_and_the_longest_target():
    assert details(CONFIG) == {"start_token": 1, "end_token": 2, "max_target_length": 14}


def test_a_question_is_one_image_and_as_many_tokens_as_the_model_takes():
    pixels, target_ids = typical_inputs(CONFIG)
    assert (tuple(pixels.shape), tuple(target_ids.shape)) == ((1, 3, 12, 12), (1, 14))
