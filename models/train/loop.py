"""The optimiser's loop: warm-up, cosine to zero, clipped gradients, and the same weights again for the same seed.

Source: Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization" (AdamW, cosine annealing).
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from attendant.config import require_fraction, require_positive

Report = Callable[[int, int, float], None]  # step from 1, number of steps, loss


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How long and how fast to learn.

    Attributes:
        steps: number of batches.
        batch: examples in each.
        peak_rate: highest learning rate, reached when the warm-up ends.
        warmup: share of the steps in which the rate rises from zero.
        weight_decay: of AdamW.
        clip: largest norm of the gradient.
    """

    steps: int
    batch: int
    peak_rate: float
    warmup: float = 0.1
    weight_decay: float = 0.05
    clip: int = 1

    def __post_init__(self) -> None:
        require_positive(self, "steps", "batch", "clip")
        require_fraction(self, "peak_rate", "warmup", "weight_decay")

    def rate(self, step: int) -> float:
        """The learning rate of a step, the first of which is 0, as a share of the peak."""
        rising = (step + 1) / max(1, self.warmup * self.steps)
        falling = 0.5 * (1 + math.cos(math.pi * step / self.steps))
        return min(rising, falling)


def silent(step: int, steps: int, loss: float) -> None:
    """A report that shows nothing."""


@contextmanager
def reproducible(seed: int) -> Iterator[None]:
    """Draw every random number from the seed and sum in one thread; what was set before comes back afterwards."""
    threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)


def optimise(
    model: nn.Module,
    loss_of_batch: Callable[[], Tensor],
    schedule: Schedule,
    report: Report,
    optimisers: Sequence[Optimizer] = (),
) -> None:
    """Change the model's weights so that the loss falls; the model is left in evaluation mode, without gradients.

    Args:
        model: what to train.
        loss_of_batch: the scalar loss of the next batch.
        schedule: how.
        report: told the step (from 1), the number of steps and the loss, after each step.
        optimisers: of every parameter, each with its own peak rate; AdamW as the schedule has it if none is given.
    """
    every = optimisers or [
        torch.optim.AdamW(model.parameters(), lr=schedule.peak_rate, weight_decay=schedule.weight_decay)
    ]
    rates = [torch.optim.lr_scheduler.LambdaLR(one, schedule.rate) for one in every]
    model.train()
    for step in range(schedule.steps):
        loss = loss_of_batch()
        model.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(model.parameters(), schedule.clip)
        for optimiser, rate in zip(every, rates, strict=True):
            optimiser.step()
            rate.step()
        report(step + 1, schedule.steps, loss.item())
    model.eval().requires_grad_(False)
