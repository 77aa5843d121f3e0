import pytest
import torch

from models.tasks.caption_recurrent import GRAPHS, graphs
from tests.models.agreement import difference
from tests.models.families.captioning import image_batch
from tests.models.families.recurrent_captioning import CONFIG, KINDS, PLAIN, recurrent_captioner
from tests.models.families.translation import logits_of

BATCH = image_batch()
every_kind = pytest.mark.parametrize("kind", KINDS)


def names(specs):
    return [spec.name for spec in specs]


def signatures(**changes):
    return [graph.signature for graph in graphs(recurrent_captioner(**changes))]


def test_with_attention_the_graphs_have_memory_keys_and_an_alignment_over_the_grid():
    encoder, decoder = signatures()
    assert names(encoder.inputs) == ["pixels"]
    assert names(encoder.outputs) == ["memory", "memory_keys", "state_00", "state_01"]
    assert names(decoder.inputs) == ["token_ids", "state_00_in", "state_01_in", "memory", "memory_keys"]
    assert names(decoder.outputs) == ["logits", "alignment", "state_00_out", "state_01_out"]
    assert decoder.outputs[1].axes == ("batch", 1, "positions")
    assert decoder.aliases == {"state_00_out": "state_00_in", "state_01_out": "state_01_in"}


def test_an_image_may_have_any_sides_from_one_stride_to_those_of_the_training():
    encoder, decoder = graphs(recurrent_captioner())
    assert encoder.signature.inputs[0].axes == ("batch", 3, "height", "width")
    assert encoder.largest == {"height": 12, "width": 12}
    assert encoder.smallest == {"height": CONFIG.grid.stride, "width": CONFIG.grid.stride}
    assert decoder.largest == {"positions": CONFIG.source_length}


def test_an_image_of_a_few_strides_keeps_its_sides():
    encoder, decoder = graphs(recurrent_captioner(image_size=3 * CONFIG.grid.stride))
    assert encoder.signature.symbols() == decoder.signature.symbols() == ("batch",)
    assert (encoder.largest, decoder.largest) == ({}, {})


def test_without_attention_the_decoder_sees_one_context():
    encoder, decoder = signatures(**PLAIN, cell="gru")
    assert names(encoder.outputs) == ["context", "state_00"]
    assert names(decoder.inputs) == ["token_ids", "state_00_in", "context"]
    assert names(decoder.outputs) == ["logits", "state_00_out"]


def decode(encoder, decoder):
    """The captions token by token, by names alone, as a runtime does it."""
    given = dict(zip(names(encoder.signature.outputs), encoder.module(BATCH.pixels), strict=True))
    held = {**given, **{f"{name}_in": tensor for name, tensor in given.items()}}
    logits, alignments = [], []
    for column in BATCH.target_ids.split(1, dim=1):
        held["token_ids"] = column
        results = decoder.module(*(held[name] for name in names(decoder.signature.inputs)))
        outputs = dict(zip(names(decoder.signature.outputs), results, strict=True))
        held |= {before: outputs[after] for after, before in decoder.signature.aliases.items()}
        logits.append(outputs["logits"])
        alignments += [outputs["alignment"]] if "alignment" in outputs else []
    return torch.cat(logits, dim=1), torch.cat(alignments, dim=1) if alignments else None


@every_kind
def test_encoder_and_decoder_graph_together_give_the_logits_and_alignments_of_the_model(kind):
    model = recurrent_captioner(**KINDS[kind])
    logits, alignments = decode(*graphs(model))
    assert difference(logits, logits_of(model, BATCH)) <= 1e-12
    assert (alignments is not None) == model.config.attends
    if alignments is not None:
        assert difference(alignments, model.align(BATCH.pixels, BATCH.target_ids)[1]) <= 1e-12


def test_details_and_question_are_those_of_every_captioner_and_the_size_of_an_image():
    assert GRAPHS.details(CONFIG) == {"start_token": 1, "end_token": 2, "max_target_length": 14, "image_size": 12}
    pixels, target_ids = GRAPHS.typical_inputs(CONFIG)
    assert (tuple(pixels.shape), tuple(target_ids.shape)) == ((1, 3, 12, 12), (1, 14))
