import math

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cosine
from scipy.special import log_softmax as scipy_log_softmax
from scipy.stats import entropy
from torch.nn import functional as F

from export.quality.agreement import agreement_of, cosines, divergences, log_softmax, prefix_of

B, T, V = 3, 4, 7
RNG = np.random.default_rng(0)
REFERENCE = 3 * RNG.standard_normal((B, T, V))
NOISY = REFERENCE + 0.1 * RNG.standard_normal((B, T, V))


def test_probabilities_are_those_of_scipy_also_of_large_logits():
    large = 1e4 * REFERENCE
    np.testing.assert_allclose(log_softmax(large), scipy_log_softmax(large, axis=-1), rtol=1e-12)


def test_divergence_is_that_of_torch_and_of_scipy():
    log_q, log_p = (F.log_softmax(torch.from_numpy(logits), -1) for logits in (NOISY, REFERENCE))
    by_torch = F.kl_div(log_q, log_p, reduction="none", log_target=True).sum(-1)
    np.testing.assert_allclose(divergences(NOISY, REFERENCE), by_torch, rtol=1e-10)
    by_scipy = entropy(np.exp(log_p.numpy()), np.exp(log_q.numpy()), axis=-1)
    np.testing.assert_allclose(divergences(NOISY, REFERENCE), by_scipy, rtol=1e-10)


def test_divergence_has_a_direction():
    assert not np.allclose(divergences(NOISY, REFERENCE), divergences(REFERENCE, NOISY), rtol=1e-3)


def test_cosine_is_that_of_scipy_and_one_between_zeros():
    wanted = [1 - cosine(found, reference) for found, reference in zip(NOISY[0], REFERENCE[0], strict=True)]
    np.testing.assert_allclose(cosines(NOISY[0], REFERENCE[0]), wanted)
    assert cosines(np.zeros((1, 3)), np.zeros((1, 3))) == 1
    assert cosines(np.ones((1, 3)), np.zeros((1, 3))) == 0


def test_an_answer_equal_to_the_reference_has_no_drift_and_agrees():
    same = agreement_of(REFERENCE, REFERENCE, logits=True)
    assert (same.drift, same.kl_mean, same.kl_largest, same.top1, same.tokens) == (0, 0, 0, 1, B * T)
    assert same.cosine == pytest.approx(1)


def test_drift_is_told_step_by_step_in_units_of_the_references_spread():
    found = REFERENCE.copy()
    found[:, 2] += 0.5
    agreement = agreement_of(found, REFERENCE, logits=True)
    spread = REFERENCE[:, 2].std(axis=-1).mean()
    assert [step.mean > 0 for step in agreement.steps] == [False, False, True, False]
    assert agreement.steps[2].largest == agreement.steps[2].mean == pytest.approx(0.5)
    assert agreement.drift == pytest.approx(0.5 / spread)
    assert agreement.kl_mean == pytest.approx(0, abs=1e-12), "the same to all logits changes no probability"


def test_one_token_of_another_first_choice_is_counted_and_stands_out():
    found = REFERENCE.copy()
    found[1, 3, REFERENCE[1, 3].argmin()] += 30
    agreement = agreement_of(found, REFERENCE, logits=True)
    assert agreement.top1 == 1 - 1 / (B * T)
    assert agreement.kl_largest == pytest.approx(B * T * agreement.kl_mean)


def test_what_is_not_finite_stays_so():
    found = REFERENCE.copy()
    found[0, 0, 0] = np.nan
    agreement = agreement_of(found, REFERENCE, logits=True)
    assert math.isnan(agreement.drift)
    assert math.isnan(agreement.kl_mean)


@pytest.mark.parametrize("shape", [(5, 1, 1), (1, 1, 1)])
def test_a_single_value_a_row_is_measured_against_the_rows_or_its_own_size(shape):
    reference = 4.0 + np.arange(np.prod(shape)).reshape(shape)
    agreement = agreement_of(reference + 0.1, reference, logits=False)
    assert agreement.drift == pytest.approx(0.1 / (reference.std() or 4.0))
    assert agreement.kl_mean is agreement.top1 is None


def test_a_prefix_ends_at_the_first_other_token_or_behind_the_end_token():
    reference = np.array([[5, 6, 7, 2, 9], [5, 6, 7, 8, 9], [2, 1, 1, 1, 1], [4, 4, 4, 4, 4]])
    found = np.array([[5, 6, 7, 2, 0], [5, 0, 7, 8, 9], [2, 9, 9, 9, 9], [3, 4, 4, 4, 4]])
    prefix = prefix_of(found, reference, {2})
    assert (prefix.rows, prefix.identical) == (4, 2)
    assert (prefix.common, prefix.whole, prefix.shortest) == (4 + 1 + 1 + 0, 4 + 5 + 1 + 5, 0)
