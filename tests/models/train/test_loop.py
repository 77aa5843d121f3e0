import numpy as np
import pytest
import torch

from attendant.errors import ConfigError
from models.train.loop import Schedule, optimise, reproducible, silent

SCHEDULE = Schedule(steps=100, batch=1, peak_rate=1e-3, warmup=0.1)


def test_the_rate_rises_during_the_warm_up_and_falls_to_nothing_afterwards() -> None:
    rates = [SCHEDULE.rate(step) for step in range(101)]
    top = rates.index(max(rates))
    assert 8 <= top <= 10
    assert rates[: top + 1] == sorted(rates[: top + 1])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert rates[0] == pytest.approx(0.1)
    assert rates[100] == pytest.approx(0)


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"batch": -1}, {"peak_rate": 2.0}, {"warmup": 1}])
def test_a_schedule_that_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        Schedule(**{"steps": 1, "batch": 1, "peak_rate": 0.1, **wrong})  # type: ignore[arg-type]


def test_a_reproducible_block_leaves_the_outer_random_numbers_and_threads_alone() -> None:
    torch.manual_seed(5)
    torch.set_num_threads(2)
    with reproducible(1):
        inner = torch.rand(3)
        assert torch.get_num_threads() == 1
    after = torch.rand(3)
    torch.manual_seed(5)
    assert torch.equal(after, torch.rand(3))  # drawn from one seed
    with reproducible(1):
        assert torch.equal(inner, torch.rand(3))
    assert torch.get_num_threads() == 2


def test_each_optimiser_given_moves_its_own_parameters_at_the_schedule_s_share_of_its_rate() -> None:
    fast, slow = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
    model = torch.nn.ParameterList([fast, slow])
    rates: list[tuple[float, float]] = []
    given = [torch.optim.SGD([fast], lr=0.1), torch.optim.SGD([slow], lr=0.01)]

    def loss() -> torch.Tensor:
        rates.append((given[0].param_groups[0]["lr"], given[1].param_groups[0]["lr"]))
        return fast.sum() + slow.sum()

    schedule = Schedule(steps=20, batch=1, peak_rate=1e-3, clip=100)
    optimise(model, loss, schedule, silent, given)
    shares = np.array([schedule.rate(step) for step in range(20)])
    np.testing.assert_allclose(rates, np.outer(shares, [0.1, 0.01]))
    assert 1 - fast[0].item() == pytest.approx(10 * (1 - slow[0].item()), rel=1e-3)
