"""What was measured is kept as spreads and stretches, and drawn from them by chance."""

import numpy as np
import pytest

from serving.capacity.series import PARTS, STRETCH, STRETCHES, Draws, spread_of, stretches_of


def drawn(mixture, count=20_000, stretch=1, seed=0):
    draws = Draws(mixture, seed, stretch)
    return np.array([draws() for _ in range(count)])


@pytest.mark.parametrize("count", [1, 7, 50, 5000])
def test_a_spread_rises_and_has_the_mean_of_what_was_measured(count):
    samples = np.random.default_rng(count).exponential(2.0, count)
    spread = spread_of(samples.tolist())
    assert len(spread) == PARTS and list(spread) == sorted(spread)
    assert np.mean(spread) == pytest.approx(samples.mean(), rel=1e-3)
    assert max(spread) <= samples.max() * 1.001


def test_what_is_drawn_has_the_percentiles_of_what_was_measured():
    samples = np.random.default_rng(3).lognormal(0.0, 1.0, 20_000)
    found = drawn([(spread_of(samples.tolist()), 1.0)])
    assert np.percentile(found, [50, 90, 95]) == pytest.approx(np.percentile(samples, [50, 90, 95]), rel=0.06)


def test_stretches_keep_what_followed_each_other_and_as_many_slow_as_fast_ones():
    # Whole stretches are slow or fast; a tenth of them is slow.
    slow = np.arange(400) % 10 == 0
    samples = np.repeat(np.where(slow, 5.0, 1.0), STRETCH)
    kept = np.array(stretches_of(samples.tolist())).reshape(STRETCHES, STRETCH)
    assert (kept == kept[:, :1]).all() and (kept[:, 0] == 5.0).sum() == STRETCHES // 10
    found = drawn([(tuple(kept.reshape(-1)), 1.0)], stretch=STRETCH)
    assert (found[1:] == found[:-1]).mean() > 0.99 and (found == 5.0).mean() == pytest.approx(0.1, abs=0.02)


def test_few_samples_are_all_kept_and_drawn_from_the_first_to_the_last():
    assert stretches_of([3.0, 1.0, 2.0]) == (3.0, 1.0, 2.0)
    assert drawn([((3.0, 1.0, 2.0), 1.0)], count=6, stretch=STRETCH).tolist() == [3.0, 1.0, 2.0, 3.0, 1.0, 2.0]


def test_a_mixture_is_drawn_by_its_shares_and_alike_for_a_seed():
    mixture = [((1.0,), 0.25), ((2.0,), 0.75)]
    found = drawn(mixture)
    assert (found == 1.0).mean() == pytest.approx(0.25, abs=0.02)
    assert (found == drawn(mixture)).all() and (found != drawn(mixture, seed=1)).any()
