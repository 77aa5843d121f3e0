import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

from attendant.errors import ConfigError
from models.families.rnn_seq2seq import RecurrentSeq2Seq
from models.generate import translate_greedily
from models.presets import PRESETS
from tests.models.agreement import agrees_in_both_precisions, difference, parameters_that_do_not_matter
from tests.models.families.recurrent_translation import CONFIG, KINDS, recurrent_batch, recurrent_translator
from tests.models.families.rnn_seq2seq_by_loops import translate_by_loops
from tests.models.families.translation import logits_of

BATCH = recurrent_batch()
every_kind = pytest.mark.parametrize("kind", KINDS)


def by_loops(model):
    """Logits ``[B, T, V]`` and alignments ``[B, T, S]`` of the batch, from the formulas."""
    weights = {name: weight.numpy() for name, weight in model.state_dict().items()}
    logits, alignments = [], np.zeros((3, BATCH.target_ids.shape[1], BATCH.source_ids.shape[1]))
    for number in range(3):
        row = BATCH.row(number)
        scores, aligned = translate_by_loops(model.config, weights, row.source_ids[0].numpy(), row.target_ids[0])
        logits.append(scores)
        if model.config.attends:
            alignments[number, :, : row.source_ids.shape[1]] = np.stack(aligned)
    return torch.from_numpy(np.stack(logits)), torch.from_numpy(alignments)


@agrees_in_both_precisions
@every_kind
def test_every_kind_computes_what_its_formulas_say(kind, dtype):
    model = recurrent_translator(dtype, **KINDS[kind])
    yield logits_of(model, BATCH), by_loops(model)[0]


@pytest.mark.planted
@every_kind
def test_a_change_of_any_parameter_is_seen_by_the_comparison_with_the_formulas(kind):
    model = recurrent_translator(**KINDS[kind])
    wanted, _ = by_loops(model)
    assert not parameters_that_do_not_matter(model, lambda: difference(logits_of(model, BATCH), wanted))


def test_the_alignment_of_every_step_is_what_the_formula_says():
    model = recurrent_translator()
    logits, alignments = model.align(BATCH.source_ids, BATCH.source_mask, BATCH.target_ids)
    assert difference(alignments, by_loops(model)[1]) <= 1e-12
    assert torch.equal(logits, logits_of(model, BATCH))  # the same computation twice, in one process


def test_a_model_without_attention_has_no_alignment_to_show():
    model = recurrent_translator(attention="none", alignment_width=None)
    with pytest.raises(ConfigError, match="a model with attention; found none"):
        model.align(BATCH.source_ids, BATCH.source_mask, BATCH.target_ids)


@every_kind
def test_a_row_depends_neither_on_its_padding_nor_on_the_other_rows(kind):
    model = recurrent_translator(**KINDS[kind])
    together = logits_of(model, BATCH)
    padded = torch.where(BATCH.source_mask, BATCH.source_ids, 7)
    # What is masked has a weight of exactly zero.
    assert torch.equal(logits_of(model, BATCH.replaced(source_ids=padded)), together)
    for number in range(3):
        assert difference(logits_of(model, BATCH.row(number)), together[[number]]) <= 1e-12


@every_kind
def test_single_steps_are_teacher_forcing_cut_in_pieces(kind):
    model = recurrent_translator(**KINDS[kind])
    memory, states = model.encode(BATCH.source_ids, BATCH.source_mask)
    logits = []
    for column in BATCH.target_ids.split(1, dim=1):
        decoded = model.step(column, states, memory, BATCH.source_mask)
        states = decoded.states
        logits.append(decoded.logits)
    assert difference(torch.cat(logits, dim=1), logits_of(model, BATCH)) <= 1e-12


@every_kind
def test_no_logit_depends_on_a_later_target_token(kind):
    model = recurrent_translator(**KINDS[kind])
    before = logits_of(model, BATCH)
    changed = BATCH.target_ids.clone()
    changed[:, 3] = (changed[:, 3] + 1) % CONFIG.target_vocabulary_size
    after = logits_of(model, BATCH.replaced(target_ids=changed))
    assert torch.equal(after[:, :3], before[:, :3])  # each row by itself, in the same order of sums
    assert ((after[:, 3:] - before[:, 3:]).abs().amax(-1) > 1e-6).all()


def test_greedy_decoding_gives_every_row_what_it_gets_alone():
    model = recurrent_translator()
    for parameter in model.parameters():
        parameter *= 3.0
    answers = translate_greedily(model, BATCH.source_ids, BATCH.source_mask, 8)
    alone = [translate_greedily(model, BATCH.row(n).source_ids, BATCH.row(n).source_mask, 8)[0] for n in range(3)]
    assert answers == alone
    assert len({tuple(answer) for answer in answers}) > 1


def test_dropout_changes_training_and_not_evaluation():
    model = recurrent_translator(dropout=0.5)
    # The same computation twice, in one process.
    assert torch.equal(logits_of(model, BATCH), logits_of(recurrent_translator(), BATCH))
    model.train()
    assert difference(logits_of(model, BATCH), logits_of(model, BATCH)) > 1e-3


def weight_matrices(model):
    """Their numbers, without those of the bias vectors."""
    biases = ("bias", "bias_ih_l0", "bias_hh_l0", "bias_ih_l0_reverse", "bias_hh_l0_reverse")
    return sum(
        parameter.numel() for name, parameter in model.named_parameters() if name.rsplit(".", 1)[-1] not in biases
    )


def on_meta(config) -> nn.Module:
    with torch.device("meta"):
        return RecurrentSeq2Seq(config)


def test_rnnsearch_50_has_the_number_of_weights_that_the_matrices_of_its_paper_add_up_to():
    # The paper writes its formulas, and so the published sizes, without biases.
    model = on_meta(PRESETS["rnnsearch-50"].config)
    assert weight_matrices(model) == 80_401_000
    parts = {
        "embeddings": (model.source_embedding, model.target_embedding),
        "encoder": (model.encoder,),
        "decoder": (model.decoder,),
        "attention": (model.attention,),
        "output": (model.output,),
        "first state": (model.first_states,),
    }
    assert {name: sum(map(weight_matrices, modules)) for name, modules in parts.items()} == {
        "embeddings": 37_200_000,
        "encoder": 9_720_000,
        "decoder": 10_860_000,
        "attention": 3_001_000,
        "output": 18_620_000,
        "first state": 1_000_000,
    }


def test_the_tiny_presets_are_tiny_and_of_every_cell():
    tiny = [preset.config for name, preset in PRESETS.items() if name.endswith("-seq2seq-tiny")]
    assert {config.cell for config in tiny} == {"rnn", "lstm", "gru"}
    assert all(sum(parameter.numel() for parameter in on_meta(config).parameters()) < 20_000 for config in tiny)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cell": "elman"}, "cell, one of"),
        ({"attention": "dot"}, "attention, one of"),
        ({"bidirectional": 1}, "bidirectional to be true or false"),
        ({"hidden_width": 0}, "hidden_width to be a positive integer"),
        ({"maxout_width": 0}, "maxout_width to be a positive integer"),
        ({"alignment_width": None}, "an alignment_width just where there is attention"),
        ({"attention": "none"}, "an alignment_width just where there is attention"),
        ({"dropout": 1.0}, r"dropout in \[0, 1\)"),
        ({"end_token": 1}, "three different special tokens"),
        ({"end_token": 17}, "end_token inside the vocabulary of 17"),
    ],
)
def test_a_bad_configuration_is_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        dataclasses.replace(CONFIG, **changes)
