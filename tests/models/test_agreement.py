import pytest
import torch
from torch import nn

from tests.models.agreement import DTYPES, agrees_in_both_precisions, assert_rounded, parameters_that_do_not_matter


def questions():
    return torch.randn(64, 32, generator=torch.Generator().manual_seed(1))


def linears():
    torch.manual_seed(0)
    return nn.Linear(32, 32).requires_grad_(False), nn.Linear(32, 8).requires_grad_(False)


def answer(x, change=lambda hidden: hidden):
    first, second = (linear.to(x) for linear in linears())
    return second(change(torch.tanh(first(x))))


def answers(change=lambda hidden: hidden):
    """Of a changed model in float32, and of the sound one in float32 and float64."""
    return answer(questions(), change), answer(questions()), answer(questions().double())


def test_another_order_of_sums_is_within_the_tolerance():
    _, rounded, exact = answers()
    x, (first, second) = questions(), linears()
    order = torch.randperm(32, generator=torch.Generator().manual_seed(2))
    hidden = torch.tanh(x[:, order] @ first.weight.T[order] + first.bias)
    assert_rounded(hidden[:, order] @ second.weight.T[order] + second.bias, rounded, exact)


@pytest.mark.planted
@pytest.mark.parametrize("change", [lambda x: x.half().to(x), lambda x: 1.00001 * x], ids=["half", "a scale"])
def test_what_is_rounded_to_half_or_scaled_on_its_way_is_not(change):
    with pytest.raises(AssertionError):
        assert_rounded(*answers(change))


@pytest.mark.planted
def test_references_that_were_asked_different_things_are_no_measure():
    found, rounded, exact = answers()
    with pytest.raises(AssertionError, match="they were asked different things"):
        assert_rounded(found, rounded.flip(0), exact)


def nothing(dtype):
    yield from ()


def another_number(dtype):
    yield 1.00001 * torch.ones(3, dtype=dtype), torch.ones(3, dtype=dtype)


@pytest.mark.planted
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("compare", [nothing, another_number])
def test_a_comparison_that_yields_nothing_or_another_number_fails(compare, dtype):
    with pytest.raises(AssertionError):
        agrees_in_both_precisions(compare)(dtype=dtype)


def test_a_parameter_whose_change_a_normalisation_takes_away_if_it_is_one_for_all_does_matter():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8, bias=False), nn.LayerNorm(8, eps=0)).double().requires_grad_(False)
    x = torch.randn(3, 4, dtype=torch.float64)
    wanted = model(x)
    assert parameters_that_do_not_matter(model, lambda: (model(x) - wanted).abs().max().item()) == set()
