import numpy as np
import pytest

from models.errors import InputError
from models.manifest import Manifest
from serving.generation.classifier import classify, require_finite
from serving.runtime.ort_runner import ort_runners


@pytest.fixture(scope="module")
def runner(tiny_classifier):
    return ort_runners(tiny_classifier, Manifest.read(tiny_classifier))["model"]


def images(count, seed=0):
    return np.random.default_rng(seed).standard_normal((count, 3, 12, 12), dtype=np.float32)


def test_requests_are_answered_as_if_each_had_come_alone(runner):
    requests = [images(2, 1), images(1, 2), images(3, 3)]
    together = classify(runner, requests)
    alone = [classify(runner, [request])[0] for request in requests]
    assert [answer.shape for answer in together] == [(2, 5), (1, 5), (3, 5)]
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_pixel_that_is_not_finite_earns_its_own_request_an_error(runner, bad):
    broken = images(1)
    broken[0, 1, 2, 3] = bad
    first, error, last = classify(runner, [images(1, 1), broken, images(2, 2)])
    assert isinstance(error, InputError) and "1 NaN or infinite" in str(error)
    assert first.shape == (1, 5) and last.shape == (2, 5)
    with pytest.raises(InputError):
        require_finite(broken)


def test_nothing_but_bad_requests_runs_nothing(runner):
    assert all(isinstance(answer, InputError) for answer in classify(runner, [np.full((1, 3, 12, 12), np.nan)]))
