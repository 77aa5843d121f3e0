import shutil

import numpy as np
import pytest

from attendant.errors import ArtefactError, ParityError
from export.quality.budgets import BUDGETS, require_budget, verdicts_of
from export.quality.measure import measure_quality
from export.quality.quality import SERVED, STANDARD
from tests.export.parity.test_check import damage


def noisy(share):
    """Add noise of that share of the weights' own deviation."""

    def change(array):
        noise = np.random.default_rng(0).standard_normal(array.shape, dtype=np.float32)
        return array + np.float32(share) * array.std() * noise

    return change


def beyond(qualities):
    verdicts = verdicts_of(qualities, BUDGETS["fp32"])
    return {(verdict.form, verdict.limit) for verdict in verdicts if not verdict.passed}


@pytest.fixture
def dates(dates_artefact, tmp_path):
    return shutil.copytree(dates_artefact, tmp_path / "dates-transformer")


@pytest.fixture
def digits(digits_artefact, tmp_path):
    return shutil.copytree(digits_artefact, tmp_path / "digits-vit")


@pytest.mark.slow
def test_both_graphs_of_a_shipped_translator_are_measured_on_held_out_dates(dates_artefact):
    served, standard = qualities = measure_quality(dates_artefact)
    assert (served.form, standard.form) == (SERVED, STANDARD)
    for quality in qualities:
        assert quality.real
        assert quality.agreements["logits"].drift < 1e-5
        assert len(quality.agreements["logits"].steps) == len("1997-03-03") + 1
        assert quality.prefix.identical == quality.prefix.rows == quality.accuracy.total == 2000
        assert quality.prefix.whole == 2000 * (len("1997-03-03") + 1)
        assert quality.accuracy.share == quality.accuracy.reference == 0.9995, "as the model card says"
    assert beyond(qualities) == set()


def test_a_classifier_is_served_as_it_stands_and_reads_every_held_out_digit(digits_artefact):
    (quality,) = measure_quality(digits_artefact)
    assert (quality.form, quality.prefix, quality.accuracy.total) == (SERVED, None, 360)
    assert quality.accuracy.share == quality.accuracy.reference == pytest.approx(358 / 360)
    assert beyond([quality]) == set()


@pytest.mark.planted
@pytest.mark.slow
def test_noise_in_the_lowered_decoder_is_seen_by_every_measure_of_what_is_served_alone(dates):
    damage(dates, "decoder.ort-cpu", noisy(3.0))
    served, standard = measure_quality(dates)
    assert beyond([standard]) == set()
    limits = ("drift of logits", "KL of logits", "top-1 agreement of logits", "loss of exact dates in points")
    assert beyond([served]) == {(SERVED, limit) for limit in limits}
    assert served.prefix.common < standard.prefix.common == served.prefix.whole
    assert served.agreements["logits"].cosine < 0.99 < standard.agreements["logits"].cosine


@pytest.mark.planted
@pytest.mark.slow
def test_noise_in_the_encoder_is_seen_in_both(dates):
    damage(dates, "encoder", noisy(0.1))
    assert {form for form, _ in beyond(measure_quality(dates))} == {SERVED, STANDARD}


@pytest.mark.planted
def test_noise_in_a_classifier_costs_right_answers(digits):
    damage(digits, "model", noisy(3.0), name="patch")
    (quality,) = measure_quality(digits)
    assert quality.accuracy.loss > 1
    assert (SERVED, "loss of images with their digit in points") in beyond([quality])


@pytest.mark.planted
def test_a_weight_that_is_not_finite_is_within_no_budget(digits):
    damage(digits, "model", lambda array: array * np.nan)
    (quality,) = measure_quality(digits)
    assert (SERVED, "drift of logits") in beyond([quality])
    assert (SERVED, "KL of logits") in beyond([quality])


@pytest.mark.parametrize("artefact", ["tiny_translator", "tiny_classifier", "language_model", "text_encoder"])
def test_random_weights_are_held_to_the_drift_alone(artefact, request):
    qualities = measure_quality(request.getfixturevalue(artefact))
    verdicts = verdicts_of(qualities, BUDGETS["fp32"])
    assert {verdict.limit.split()[0] for verdict in verdicts} == {"drift"}
    assert all(verdict.passed for verdict in verdicts)
    assert not any(quality.real or quality.accuracy for quality in qualities)


@pytest.mark.planted
def test_noise_in_a_language_model_with_random_weights_is_seen_by_its_drift(language_model, tmp_path):
    folder = shutil.copytree(language_model, tmp_path / "artefact")
    damage(folder, "decoder", noisy(0.01))
    served, standard = measure_quality(folder)
    assert beyond([served]) == set()
    assert beyond([standard]) == {(STANDARD, "drift of logits")}
    assert standard.prefix.whole == served.prefix.common


@pytest.mark.planted
def test_noise_in_a_text_encoder_turns_its_vectors(text_encoder, tmp_path):
    folder = shutil.copytree(text_encoder, tmp_path / "artefact")
    damage(folder, "model", noisy(0.5))
    (whole,), (broken,) = measure_quality(text_encoder), measure_quality(folder)
    for output in ("hidden", "pooled"):
        assert broken.agreements[output].cosine < 0.999 < whole.agreements[output].cosine
        assert broken.agreements[output].top1 is None
    assert (SERVED, "drift of hidden") in beyond([broken])


@pytest.mark.planted
def test_what_is_beyond_a_budget_is_told_with_what_to_do(digits):
    damage(digits, "model", noisy(0.5))
    verdicts = verdicts_of(measure_quality(digits), BUDGETS["fp32"])
    with pytest.raises(
        ParityError, match=r"drift of logits of the served graph at most 0\.0001, the budget of fp32; found .*; suspect"
    ):
        require_budget(verdicts, "fp32", digits / "parity.json")


def test_another_models_checkpoint_is_refused(digits_artefact):
    with pytest.raises(ArtefactError, match="--source"):
        measure_quality(digits_artefact, "vit-tiny")
