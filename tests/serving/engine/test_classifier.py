import numpy as np
import pytest
import torch

from attendant.errors import InputError
from attendant.manifest import Manifest
from models.checkpoints.resolve import checkpoint_named
from serving.engine.classifier import ImageClassifier, Images, classify, require_finite
from serving.runtime.create_runners import create_runners
from tests.models.agreement import assert_rounded


@pytest.fixture(scope="module")
def runner(tiny_classifier):
    return create_runners(tiny_classifier, Manifest.read(tiny_classifier))["model"]


def images(count, seed=0):
    return np.random.default_rng(seed).standard_normal((count, 3, 12, 12), dtype=np.float32)


def test_requests_are_answered_as_if_each_had_come_alone(runner, tiny_classifier):
    requests = [images(2, 1), images(1, 2), images(3, 3)]
    together = classify(runner, requests)
    alone = [classify(runner, [request])[0] for request in requests]
    assert [answer["logits"].shape for answer in together] == [(2, 5), (1, 5), (3, 5)]
    model = checkpoint_named(Manifest.read(tiny_classifier).source).model
    for request, *answers in zip(requests, together, alone, strict=True):
        pixels = torch.from_numpy(request)
        rounded, exact = model.float()(pixels), model.double()(pixels.double())
        for answer in answers:
            assert_rounded(answer["logits"], rounded, exact)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_pixel_that_is_not_finite_earns_its_own_request_an_error(runner, bad):
    broken = images(1)
    broken[0, 1, 2, 3] = bad
    first, error, last = classify(runner, [images(1, 1), broken, images(2, 2)])
    assert isinstance(error, InputError) and "1 NaN or infinite" in str(error)
    assert first["logits"].shape == (1, 5) and last["logits"].shape == (2, 5)
    with pytest.raises(InputError):
        require_finite(broken)


@pytest.mark.parametrize("shape", [(12, 12), (1, 12, 12), (1, 3, 12, 13), (0, 3, 12, 12), (1, 1, 3, 12, 12)])
def test_an_image_of_another_shape_earns_its_own_request_an_error(runner, shape):
    first, error, last = classify(runner, [images(1, 1), np.zeros(shape, np.float32), images(2, 2)])
    assert isinstance(error, InputError) and "'pixels'" in str(error)
    assert first["logits"].shape == (1, 5) and last["logits"].shape == (2, 5)


def test_nothing_but_bad_requests_runs_nothing(runner):
    assert all(isinstance(answer, InputError) for answer in classify(runner, [np.full((1, 3, 12, 12), np.nan)]))


def digits(count, seed=0, explain=False):
    return Images(pixels=np.random.default_rng(seed).random((count, 1, 8, 8), dtype=np.float32), explain=explain)


def test_the_graph_that_explains_is_loaded_only_once_somebody_asks_for_it(explained_digits):
    classifier = ImageClassifier(explained_digits, Manifest.read(explained_digits))
    (plain,) = classifier.answer([digits(2)])
    assert classifier.runners.keys() == {"model"} and plain.keys() == {"logits"}
    (shown,) = classifier.answer([digits(2, explain=True)])
    assert classifier.runners.keys() == {"model", "explained"} and shown.keys() == {"logits", "attention", "rollout"}
    np.testing.assert_allclose(shown["logits"], plain["logits"], atol=1e-5)


def test_requests_of_both_kinds_and_bad_ones_each_get_their_own_answer(explained_digits):
    classifier = ImageClassifier(explained_digits, Manifest.read(explained_digits))
    bad, broken = InputError("a boolean", "'yes'", "send one"), digits(1, explain=True)
    broken.pixels[0, 0, 0, 0] = np.nan
    answers = classifier.answer([digits(1, 1), digits(2, 2, explain=True), bad, broken, digits(3, 3)])
    assert [len(answer["logits"]) for answer in (answers[0], answers[1], answers[4])] == [1, 2, 3]
    assert ["rollout" in answer for answer in (answers[0], answers[1], answers[4])] == [False, True, False]
    assert answers[2] is bad and "1 NaN or infinite" in str(answers[3])


def test_an_artefact_that_explains_nothing_refuses_to_and_answers_the_others(digits_artefact):
    classifier = ImageClassifier(digits_artefact, Manifest.read(digits_artefact))
    plain, refused = classifier.answer([digits(1), digits(1, explain=True)])
    assert plain["logits"].shape == (1, 10)
    assert isinstance(refused, InputError) and "--explain" in str(refused)
