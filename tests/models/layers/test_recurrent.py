import numpy as np
import pytest
import torch
from torch import nn

from attendant.errors import ConfigError
from models.layers.recurrent import CELLS, Recurrent, recurrent
from tests.models.agreement import agrees_in_both_precisions, difference, parameters_that_do_not_matter, randomised
from tests.models.layers.recurrent_by_loops import recurrent_by_loops

BATCH, POSITIONS, INPUT, WIDTH = 4, 6, 5, 3
LENGTHS = (4, 6, 1, 3)
every_cell = pytest.mark.parametrize("cell", CELLS)
both_directions = pytest.mark.parametrize("bidirectional", [False, True], ids=["one direction", "two directions"])


def layer_of(cell, bidirectional, dtype=torch.float64):
    torch.manual_seed(0)
    return randomised(Recurrent(cell, INPUT, WIDTH, bidirectional), dtype)


def random_inputs(dtype=torch.float64, batch=BATCH):
    return torch.randn(batch, POSITIONS, INPUT, generator=torch.Generator().manual_seed(1)).to(dtype)


def random_states(layer, dtype=torch.float64, batch=BATCH):
    generator = torch.Generator().manual_seed(2)
    shape = (2 if layer.cells.bidirectional else 1, batch, WIDTH)
    count = 2 if layer.cell == "lstm" else 1
    return tuple(torch.randn(shape, generator=generator).to(dtype) for _ in range(count))


def mask_of(lengths):
    return torch.arange(POSITIONS) < torch.tensor(lengths)[:, None]


def together(outputs, states):
    return torch.cat([outputs.flatten(), *(state.flatten() for state in states)]).double()


def looped(layer, inputs, lengths, initial=None):
    weights = [weight.numpy() for weight in layer.cells.parameters()]
    first = [state.numpy() for state in initial] if initial else None
    outputs, states = recurrent_by_loops(layer.cell, inputs.numpy(), lengths, weights, first)
    return together(torch.from_numpy(outputs), [torch.from_numpy(state) for state in states])


@agrees_in_both_precisions
@every_cell
@both_directions
def test_a_padded_batch_gets_what_the_formulas_give_each_row_alone(cell, bidirectional, dtype):
    layer, inputs = layer_of(cell, bidirectional, dtype), random_inputs(dtype)
    initial = random_states(layer, dtype)
    found = together(*layer(inputs, mask_of(LENGTHS), initial))
    yield found, looped(layer, inputs, LENGTHS, initial)


@every_cell
@both_directions
def test_without_a_mask_and_without_states_it_reads_everything_from_zero(cell, bidirectional):
    layer, inputs = layer_of(cell, bidirectional), random_inputs()
    found = together(*layer(inputs))
    assert difference(found, looped(layer, inputs, [POSITIONS] * BATCH)) <= 1e-12
    assert difference(found, together(*layer(inputs, mask_of([POSITIONS] * BATCH)))) <= 1e-12


@pytest.mark.planted
@every_cell
@both_directions
def test_a_change_of_any_parameter_is_seen_by_the_comparison_with_the_formulas(cell, bidirectional):
    layer, inputs = layer_of(cell, bidirectional), random_inputs()
    wanted = looped(layer, inputs, LENGTHS)
    assert not parameters_that_do_not_matter(
        layer, lambda: difference(together(*layer(inputs, mask_of(LENGTHS))), wanted)
    )


@pytest.mark.planted
@every_cell
def test_a_length_that_is_wrong_by_one_is_seen_by_the_comparison_with_the_formulas(cell):
    layer, inputs = layer_of(cell, True), random_inputs()
    found = together(*layer(inputs, mask_of((4, 6, 1, 4))))
    assert difference(found, looped(layer, inputs, LENGTHS)) > 1e-3


@every_cell
def test_both_directions_of_the_layer_are_two_layers_of_pytorch(cell):
    layer, inputs = layer_of(cell, True), random_inputs()
    outputs, states = layer(inputs)
    kind = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}[cell]
    for direction, suffix in enumerate(("", "_reverse")):
        one = kind(INPUT, WIDTH, batch_first=True).double()
        names = [name for name, _ in one.named_parameters()]
        one.load_state_dict({name: layer.cells.get_parameter(name + suffix) for name in names})
        turned = inputs.flip(1) if suffix else inputs
        hidden, last = one.requires_grad_(False)(turned)
        part = outputs[..., direction * WIDTH : (direction + 1) * WIDTH]
        assert difference(part.flip(1) if suffix else part, hidden) <= 1e-12
        assert difference(states[0][direction], (last[0] if cell == "lstm" else last)[0]) <= 1e-12


@every_cell
@both_directions
def test_a_rows_result_depends_neither_on_its_padding_nor_on_the_other_rows(cell, bidirectional):
    layer, inputs = layer_of(cell, bidirectional), random_inputs()
    outputs, states = layer(inputs, mask_of(LENGTHS))
    scrambled = torch.where(mask_of(LENGTHS)[..., None], inputs, torch.nan)
    assert difference(together(*layer(scrambled, mask_of(LENGTHS))), together(outputs, states)) == 0.0
    for row, length in enumerate(LENGTHS):
        alone, last = layer(inputs[[row], :length])
        assert difference(outputs[[row], :length], alone) <= 1e-12
        assert (outputs[row, length:] == 0).all()
        assert all(difference(state[:, [row]], end) <= 1e-12 for state, end in zip(states, last, strict=True))


@every_cell
@both_directions
def test_a_row_of_padding_alone_gets_zeros_and_disturbs_no_other(cell, bidirectional):
    layer, inputs = layer_of(cell, bidirectional), random_inputs()
    outputs, states = layer(inputs, mask_of((4, 0, 1, 3)), random_states(layer))
    others = [0, 2, 3]
    first = tuple(state[:, others] for state in random_states(layer))
    wanted, last = layer(inputs[others], mask_of((4, 1, 3)), first)
    assert difference(outputs[others], wanted) <= 1e-12
    assert (outputs[1] == 0).all() and all((state[:, 1] == 0).all() for state in states)
    assert all(difference(state[:, others], end) <= 1e-12 for state, end in zip(states, last, strict=True))


@every_cell
def test_reading_in_two_parts_is_reading_in_one(cell):
    layer, inputs = layer_of(cell, False), random_inputs()
    outputs, states = layer(inputs)
    first, carried = layer(inputs[:, :2])
    second, last = layer(inputs[:, 2:], initial=carried)
    assert difference(torch.cat([first, second], dim=1), outputs) <= 1e-12
    assert difference(together(second, last), together(outputs[:, 2:], states)) <= 1e-12


@pytest.mark.parametrize(("cell", "count"), [("rnn", 525_312), ("gru", 1_575_936), ("lstm", 2_101_248)])
def test_a_layer_from_512_to_512_has_the_known_number_of_parameters(cell, count):
    with torch.device("meta"):
        assert sum(parameter.numel() for parameter in Recurrent(cell, 512, 512).parameters()) == count


@every_cell
@both_directions
def test_the_custom_operator_is_the_layer(cell, bidirectional):
    layer, inputs = layer_of(cell, bidirectional), random_inputs()
    initial, lengths = random_states(layer), torch.tensor(LENGTHS)
    outputs, *last = recurrent(inputs, lengths, list(initial), list(layer.parameters()), cell, bidirectional)
    assert [state.numel() > 0 for state in last] == [True, cell == "lstm"]
    found = together(outputs, last[: len(initial)])
    # The same computation twice, in one process.
    assert torch.equal(found, together(*layer(inputs, mask_of(LENGTHS), initial)))


@every_cell
@both_directions
def test_pytorch_finds_no_fault_with_the_custom_operator(cell, bidirectional):
    layer, inputs = layer_of(cell, bidirectional), random_inputs()
    weights = [weight.detach() for weight in layer.parameters()]
    torch.library.opcheck(recurrent, (inputs, torch.tensor(LENGTHS), [], weights, cell, bidirectional))
    initial = list(random_states(layer))
    torch.library.opcheck(recurrent, (inputs[:, :1], None, initial, weights, cell, bidirectional))


@every_cell
def test_gradients_flow_through_padded_batches(cell):
    torch.manual_seed(0)
    layer = Recurrent(cell, INPUT, WIDTH, bidirectional=True)
    outputs, states = layer(random_inputs(torch.float32), mask_of((4, 0, 1, 3)))
    together(outputs, states).square().sum().backward()
    assert all((weight.grad != 0).any() and weight.grad.isfinite().all() for weight in layer.parameters())


def test_an_unknown_cell_is_refused():
    with pytest.raises(ConfigError, match=r"one of .*'rnn', 'lstm', 'gru'.*found 'elman'"):
        Recurrent("elman", INPUT, WIDTH)


@pytest.mark.planted
def test_the_loops_are_not_fooled_by_the_order_of_gates():
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=shape) for shape in ((9, 5), (9, 3), (9,), (9,))]
    swapped = [np.concatenate([weight[3:6], weight[:3], weight[6:]]) for weight in weights]
    inputs = rng.normal(size=(1, 4, 5))
    right, wrong = (recurrent_by_loops("gru", inputs, [4], chosen)[0] for chosen in (weights, swapped))
    assert np.abs(right - wrong).max() > 1e-3
