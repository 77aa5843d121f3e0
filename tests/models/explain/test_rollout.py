import numpy as np
import pytest
import torch

from attendant.errors import ConfigError
from models.explain.rollout import gradient_rollout, rollout
from tests.models.agreement import difference
from tests.models.explain.rollout_by_loops import FUSE, rollout_by_loops


def layers(count=3, batch=2, heads=4, size=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(count, batch, heads, size, size, generator=generator).double()
    return list((2 * scores).softmax(-1))


@pytest.mark.parametrize("discard", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("fusion", FUSE)
def test_it_is_what_the_formulas_say(fusion, discard):
    weights = layers()
    found = rollout(weights, fusion, discard)
    for row in range(2):
        wanted = rollout_by_loops([one[row].numpy() for one in weights], FUSE[fusion], discard)
        assert difference(found[row], torch.from_numpy(wanted)) <= 1e-12
    assert difference(found.sum(-1), torch.ones(2, 5).double()) <= 1e-12


def test_the_last_layer_stands_on_the_left():
    first, second = layers(2)
    assert difference(rollout([first, second]), rollout([second, first])) > 1e-3


@pytest.mark.parametrize("discard", [0.0, 0.5])
def test_gradients_weigh_the_heads_and_what_speaks_against_the_class_counts_nothing(discard):
    weights, gradients = layers(), [one - 0.2 for one in layers(seed=1)]
    found = gradient_rollout(weights, gradients, discard)
    relevant = [np.maximum(one * gradient, 0) for one, gradient in zip(weights, gradients, strict=True)]
    for row in range(2):
        wanted = rollout_by_loops([np.asarray(one[row]) for one in relevant], np.mean, discard)
        assert difference(found[row], torch.from_numpy(wanted)) <= 1e-12


def test_layers_that_attend_to_nothing_else_leave_everything_in_its_place():
    weights = [torch.eye(4).expand(1, 2, 4, 4)] * 3
    assert torch.equal(rollout(weights), torch.eye(4)[None])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (([], "mean", 0.0), "at least one layer"),
        ((layers(), "median", 0.0), "a fusion of"),
        ((layers(), "mean", 1.0), "a share to discard"),
        ((layers(), "mean", -0.1), "a share to discard"),
    ],
    ids=["no layer", "fusion", "all", "negative"],
)
def test_what_means_nothing_is_refused(arguments, expected):
    with pytest.raises(ConfigError, match=expected):
        rollout(*arguments)
