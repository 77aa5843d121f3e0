import dataclasses

import numpy as np
import pytest
import torch

from attendant.errors import ConfigError
from models.families.rnn_captioner import RecurrentCaptioner
from models.presets import PRESETS
from tests.models.agreement import agrees_in_both_precisions, difference, parameters_that_do_not_matter
from tests.models.families.captioning import ROWS, TARGET_LENGTH, image_batch
from tests.models.families.recurrent_captioning import CONFIG, KINDS, PLAIN, recurrent_captioner
from tests.models.families.rnn_captioner_by_loops import caption_by_loops
from tests.models.families.translation import logits_of

BATCH = image_batch()
every_kind = pytest.mark.parametrize("kind", KINDS)


def by_loops(model, batch=BATCH):
    """Logits ``[B, T, V]``, and with attention its weights ``[B, T, L]``, from the formulas."""
    weights = {name: weight.numpy() for name, weight in model.state_dict().items()}
    images = batch.pixels.numpy()
    rows = [caption_by_loops(model.config, weights, *row) for row in zip(images, batch.target_ids, strict=True)]
    logits, alignments = zip(*rows, strict=True)
    shown = torch.from_numpy(np.array(alignments)) if model.config.attends else None
    return torch.from_numpy(np.stack(logits)), shown


@agrees_in_both_precisions
@every_kind
def test_every_kind_computes_what_its_formulas_say(kind, dtype):
    model, batch = recurrent_captioner(dtype, **KINDS[kind]), image_batch(dtype)
    yield logits_of(model, batch), by_loops(model, batch)[0]


@pytest.mark.planted
@every_kind
def test_a_change_of_any_parameter_is_seen_by_the_comparison_with_the_formulas(kind):
    model = recurrent_captioner(**KINDS[kind])
    wanted, _ = by_loops(model)
    assert not parameters_that_do_not_matter(model, lambda: difference(logits_of(model, BATCH), wanted))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "attention" in kind or "Attend" in kind])
def test_the_weights_of_every_step_are_what_the_formula_says_and_sum_to_one_over_the_grid(kind):
    model = recurrent_captioner(**KINDS[kind])
    logits, alignments = model.align(BATCH.pixels, BATCH.target_ids)
    assert alignments.shape == (ROWS, TARGET_LENGTH, CONFIG.source_length)
    assert difference(alignments, by_loops(model)[1]) <= 1e-12
    assert difference(alignments.sum(2), torch.ones(ROWS, TARGET_LENGTH).double()) <= 1e-12
    assert torch.equal(logits, logits_of(model, BATCH))  # the same computation twice, in one process


def test_a_model_without_attention_has_no_weights_to_show():
    with pytest.raises(ConfigError, match="a model with attention; found none"):
        recurrent_captioner(**PLAIN).align(BATCH.pixels, BATCH.target_ids)


@every_kind
@pytest.mark.parametrize("row", range(ROWS))
def test_a_row_depends_on_its_own_image_and_on_no_other(kind, row):
    model = recurrent_captioner(**KINDS[kind])
    together = logits_of(model, BATCH)
    assert difference(logits_of(model, BATCH.row(row)), together[[row]]) <= 1e-12
    pixels = BATCH.pixels.clone()
    pixels[row] += torch.arange(12)
    changed = logits_of(model, BATCH.replaced(pixels=pixels))
    others = [other for other in range(ROWS) if other != row]
    assert difference(changed[others], together[others]) <= 1e-12
    assert difference(changed[row], together[row]) > 1e-3


@every_kind
def test_any_split_of_a_decode_is_teacher_forcing_cut_in_pieces(kind):
    model = recurrent_captioner(**KINDS[kind])
    full = logits_of(model, BATCH)
    for split in ((1,) * TARGET_LENGTH, (2, 4), (5, 1), (1, 3, 2)):
        memory, states = model.encode(BATCH.pixels)
        logits = []
        for piece in BATCH.target_ids.split(split, dim=1):
            decoded = model.step(piece, states, memory)
            states = decoded.states
            logits.append(decoded.logits)
        assert difference(torch.cat(logits, dim=1), full) <= 1e-12


@pytest.mark.planted
def test_states_that_are_not_carried_on_are_seen():
    model = recurrent_captioner()
    memory, states = model.encode(BATCH.pixels)
    logits = [model.step(column, states, memory).logits for column in BATCH.target_ids.split(1, dim=1)]
    assert difference(torch.cat(logits, dim=1), logits_of(model, BATCH)) > 1e-3


@every_kind
def test_no_logit_depends_on_a_later_word(kind):
    model = recurrent_captioner(**KINDS[kind])
    before = logits_of(model, BATCH)
    changed = BATCH.target_ids.clone()
    changed[:, 3] = (changed[:, 3] + 1) % CONFIG.vocabulary_size
    after = logits_of(model, BATCH.replaced(target_ids=changed))
    assert torch.equal(after[:, :3], before[:, :3])  # each row by itself, in the same order of sums
    assert ((after[:, 3:] - before[:, 3:]).abs().amax(-1) > 1e-7).all()


def test_without_attention_the_context_is_the_first_state():
    memory, states = recurrent_captioner(**PLAIN).encode(BATCH.pixels)
    assert len(memory) == 1
    assert torch.equal(memory[0], states[0])  # numbers are moved, and none is computed


def test_dropout_acts_in_training_and_rests_in_evaluation():
    model = recurrent_captioner()
    assert torch.equal(logits_of(model, BATCH), logits_of(model, BATCH))  # the same computation twice, in one process
    model.train()
    assert difference(logits_of(model, BATCH), logits_of(model, BATCH)) > 1e-3


@every_kind
def test_every_parameter_is_trained(kind):
    model = RecurrentCaptioner(dataclasses.replace(CONFIG, **KINDS[kind])).double()
    logits_of(model, BATCH).square().sum().backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []


def test_show_attend_and_tell_has_the_matrices_of_its_authors_code():
    with torch.device("meta"):
        model = RecurrentCaptioner(PRESETS["show-attend-tell"].config)
    matrices = sum(one.numel() for name, one in model.named_parameters() if one.dim() > 1 and "grid." not in name)
    word, seen, state, words = 512, 512, 1800, 10_000
    cell = 4 * state * (word + seen + state)
    attention = 2 * seen * seen + state * seen + seen
    first = seen * seen + 2 * seen * state
    output = (state + seen) * word + word * words
    assert matrices == words * word + cell + attention + first + state + output == 35_310_088


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"vocabulary_size": 0}, "vocabulary_size to be a positive integer; found 0"),
        ({"alignment_layers": 0}, "alignment_layers to be a positive integer; found 0"),
        ({"alignment_width": 0}, "alignment_width to be a positive integer; found 0"),
        ({"alignment_width": None}, "an alignment_width just where there is attention; found None"),
        ({"attention": "none"}, "an alignment_width just where there is attention; found 4"),
        ({**PLAIN, "gated": True}, "a gate only where there is attention; found gated True"),
        ({"grid": None}, "grid to be a ConvGridConfig; found NoneType"),
        ({"image_size": 13}, "image_size to be a multiple of 2; found 13"),
        ({"cell": "qrnn"}, "cell, one of"),
        ({"deep_output": 1}, "deep_output to be true or false; found 1"),
        ({"dropout": -0.1}, r"dropout in \[0, 1\); found -0.1"),
        ({"start_token": 19}, "start_token inside the vocabulary of 19; found 19"),
    ],
    ids=str,
)
def test_a_configuration_that_no_model_can_have_is_refused(changes, expected):
    with pytest.raises(ConfigError, match=expected):
        dataclasses.replace(CONFIG, **changes)
