import pytest
import torch

from models.tasks.translate_recurrent import details, graphs
from tests.models.agreement import difference
from tests.models.families.recurrent_translation import CONFIG, KINDS, recurrent_batch, recurrent_translator
from tests.models.families.translation import logits_of

BATCH = recurrent_batch()
every_kind = pytest.mark.parametrize("kind", KINDS)
WITHOUT = {"attention": "none", "alignment_width": None}


def names(specs):
    return [spec.name for spec in specs]


def signatures(**changes):
    return [graph.signature for graph in graphs(recurrent_translator(torch.float32, **changes))]


def test_with_attention_the_graphs_have_memory_keys_and_an_alignment():
    encoder, decoder = signatures()
    assert names(encoder.inputs) == ["source_ids", "source_mask"]
    assert names(encoder.outputs) == ["memory", "memory_keys", "state_00"]
    assert names(decoder.inputs) == ["token_ids", "source_mask", "state_00_in", "memory", "memory_keys"]
    assert names(decoder.outputs) == ["logits", "alignment", "state_00_out"]


def test_without_attention_the_decoder_sees_one_context_and_no_mask():
    encoder, decoder = signatures(**WITHOUT)
    assert names(encoder.outputs) == ["context", "state_00"]
    assert names(decoder.inputs) == ["token_ids", "state_00_in", "context"]
    assert names(decoder.outputs) == ["logits", "state_00_out"]
    assert "source" not in decoder.symbols()


def test_an_lstm_carries_its_memory_cell_too_in_place():
    encoder, decoder = signatures(cell="lstm")
    assert names(encoder.outputs)[-2:] == ["state_00", "state_01"]
    assert decoder.aliases == {"state_00_out": "state_00_in", "state_01_out": "state_01_in"}


@every_kind
def test_every_result_of_the_encoder_finds_its_place_in_the_decoder(kind):
    encoder, decoder = signatures(**KINDS[kind])
    inputs = {spec.name: spec for spec in decoder.inputs}
    for spec in encoder.outputs:
        taken = inputs.get(spec.name) or inputs[f"{spec.name}_in"]
        assert (taken.dtype, taken.axes) == (spec.dtype, spec.axes)
    assert set(decoder.aliases.values()) == {f"{name}_in" for name in names(encoder.outputs) if "state_" in name}


def decode(encoder, decoder):
    """The targets token by token, by names alone, as a runtime does it."""
    given = dict(
        zip(names(encoder.signature.outputs), encoder.module(BATCH.source_ids, BATCH.source_mask), strict=True)
    )
    held = {**given, **{f"{name}_in": tensor for name, tensor in given.items()}, "source_mask": BATCH.source_mask}
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
    model = recurrent_translator(torch.float64, **KINDS[kind])
    logits, alignments = decode(*graphs(model))
    assert difference(logits, logits_of(model, BATCH)) <= 1e-12
    assert (alignments is not None) == model.config.attends
    if alignments is not None:
        wanted = model.align(BATCH.source_ids, BATCH.source_mask, BATCH.target_ids)[1]
        assert difference(alignments, wanted) <= 1e-12


def test_the_details_are_token_ids_and_lengths():
    assert details(CONFIG) == {"start_token": 1, "end_token": 2, "max_source_length": 10, "max_target_length": 14}
