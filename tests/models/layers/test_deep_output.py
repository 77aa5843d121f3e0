import numpy as np
import pytest
import torch

from models.layers.deep_output import DeepOutput, SummedOutput
from tests.models.agreement import agrees_in_both_precisions, difference, parameters_that_do_not_matter, randomised

BATCH, STEPS, STATE, EMBEDDING, CONTEXT, UNITS, WORDS = 2, 3, 4, 5, 6, 7, 8


def layer_of(dtype, summed=False):
    torch.manual_seed(0)
    if summed:
        return randomised(SummedOutput(STATE + CONTEXT, EMBEDDING, WORDS), dtype)
    return randomised(DeepOutput(STATE + EMBEDDING + CONTEXT, UNITS, WORDS), dtype)


def inputs_of(dtype):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(BATCH, STEPS, width, generator=generator).to(dtype) for width in (STATE, EMBEDDING, CONTEXT)]


def deep_output_by_loops(layer, inputs):
    """Three matrices U, V and C, the larger of each pair, and W."""
    names = layer.hidden.weight, layer.hidden.bias, layer.output.weight, layer.output.bias
    hidden, bias, output, output_bias = (weight.numpy() for weight in names)
    u, v, c = np.split(hidden, [STATE, STATE + EMBEDDING], axis=1)
    logits = np.zeros((BATCH, STEPS, WORDS))
    for b, t in np.ndindex(BATCH, STEPS):
        state, embedded, context = (tensor[b, t].numpy() for tensor in inputs)
        before = u @ state + v @ embedded + c @ context + bias
        units = np.array([max(before[2 * k], before[2 * k + 1]) for k in range(UNITS)])
        logits[b, t] = output @ units + output_bias
    return torch.from_numpy(logits)


@agrees_in_both_precisions
def test_the_scores_are_what_the_formula_says(dtype):
    layer, inputs = layer_of(dtype), inputs_of(dtype)
    yield layer(*inputs), deep_output_by_loops(layer, inputs)


@pytest.mark.planted
def test_a_change_of_any_parameter_or_of_the_order_is_seen_by_the_comparison():
    layer, inputs = layer_of(torch.float64), inputs_of(torch.float64)
    wanted = deep_output_by_loops(layer, inputs)
    assert not parameters_that_do_not_matter(layer, lambda: difference(layer(*inputs), wanted))
    assert difference(layer(*inputs[::-1]), wanted) > 1e-3


def summed_output_by_loops(layer, inputs):
    """L_o tanh(E y + L_h s + L_z c), where E y is the embedding."""
    names = layer.hidden.weight, layer.hidden.bias, layer.output.weight, layer.output.bias
    hidden, bias, output, output_bias = (weight.numpy() for weight in names)
    of_state, of_context = np.split(hidden, [STATE], axis=1)
    logits = np.zeros((BATCH, STEPS, WORDS))
    for b, t in np.ndindex(BATCH, STEPS):
        state, embedded, context = (tensor[b, t].numpy() for tensor in inputs)
        known = np.tanh(embedded + of_state @ state + of_context @ context + bias)
        logits[b, t] = output @ known + output_bias
    return torch.from_numpy(logits)


@agrees_in_both_precisions
def test_the_scores_by_a_sum_are_what_the_formula_says(dtype):
    layer, inputs = layer_of(dtype, summed=True), inputs_of(dtype)
    yield layer(*inputs), summed_output_by_loops(layer, inputs)


@pytest.mark.planted
def test_a_change_of_any_parameter_or_input_of_the_sum_is_seen_by_the_comparison():
    layer, inputs = layer_of(torch.float64, summed=True), inputs_of(torch.float64)
    wanted = summed_output_by_loops(layer, inputs)
    assert not parameters_that_do_not_matter(layer, lambda: difference(layer(*inputs), wanted))
    for place in range(3):
        changed = [tensor + 0.1 if number == place else tensor for number, tensor in enumerate(inputs)]
        assert difference(layer(*changed), wanted) > 1e-3
