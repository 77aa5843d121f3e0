import numpy as np
import pytest
import torch
from torch.nn import functional as F

from attendant.tensor_names import LOGITS
from export.parity.eager import eager_runners
from export.quality.answers import answers_of, force_decode
from export.quality.held_out import HELD_OUT, has_held_out, held_out_questions
from export.quality.random_questions import random_questions
from models.checkpoints.place import shipped_names
from models.checkpoints.resolve import checkpoint_named
from models.train import digit_data
from models.train.date_data import held_out as held_out_dates
from models.train.docstrings import standard_library
from models.train.split import hash_share


@pytest.fixture(scope="module")
def language_checkpoint():
    return checkpoint_named("stdlib-lm")


@pytest.fixture(scope="module")
def texts(language_checkpoint):
    return held_out_questions(language_checkpoint, language_checkpoint.graphs()[0].signature, False)


def held_out(name, full=False):
    checkpoint = checkpoint_named(name)
    return checkpoint, held_out_questions(checkpoint, checkpoint.graphs()[0].signature, full)


def test_every_shipped_checkpoint_has_held_out_questions_and_a_preset_has_none():
    assert sorted(HELD_OUT) == shipped_names()
    assert all(has_held_out(checkpoint_named(name)) for name in shipped_names())
    assert not has_held_out(checkpoint_named("vit-tiny"))


def test_the_images_are_those_that_training_never_saw():
    _, questions = held_out("digits-swin")
    seen = {image.tobytes() for image in digit_data.training_images()[0]}
    assert not seen & {image.tobytes() for image in questions.feeds["pixels"]}
    assert questions.count == questions.sample == 360


def test_every_held_out_date_is_asked_and_its_tokens_are_the_dates():
    checkpoint, questions = held_out("dates-gru")
    wanted = [date for _, date in held_out_dates()]
    assert questions.count == len(wanted) == 2000
    config = checkpoint.config
    assert set(questions.truth[:, 0]) == {config.start_token}
    assert set(questions.truth[:, -1]) == {config.end_token}
    assert len(np.unique(questions.truth, axis=0)) == len(set(wanted))


def test_texts_of_a_language_model_are_held_out_whole_windows_in_an_order_that_mixes_modules(
    texts, language_checkpoint
):
    length = language_checkpoint.config.max_length
    assert texts.truth.shape == (64, length + 1)
    assert all(hash_share(module) < 1 / 15 for module in standard_library()[1])
    every = held_out_questions(language_checkpoint, language_checkpoint.graphs()[0].signature, True)
    assert every.count > 4 * texts.count
    np.testing.assert_array_equal(every.truth[:64], texts.truth)


def test_right_next_tokens_and_perplexity_are_those_of_the_plain_model(texts, language_checkpoint):
    few = texts.first(3)
    found = answers_of(eager_runners(language_checkpoint.graphs(), torch.float32), few, at_once=True).accuracy
    tokens = torch.from_numpy(few.truth)
    logits = language_checkpoint.model(tokens[:, :-1])[:, few.prompt - 1 :]
    truth = tokens[:, few.prompt :]
    assert found.total == truth.numel() == 3 * 129
    assert found.right == int((logits.argmax(-1) == truth).sum())
    nats = F.cross_entropy(logits.flatten(0, 1), truth.flatten())
    assert found.perplexity == pytest.approx(float(nats.exp()), rel=1e-5)


def test_single_steps_behind_the_prompt_and_a_whole_target_at_once_are_the_same(texts, language_checkpoint):
    runners, few = eager_runners(language_checkpoint.graphs(), torch.float64), texts.first(2)
    np.testing.assert_allclose(force_decode(runners, few, False), force_decode(runners, few, True), rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    "name",
    [
        "gpt2-tiny",
        "bert-tiny",
        "vit-tiny",
        "transformer-tiny",
        "gru-seq2seq-tiny",
        "captioner-cptr-tiny",
        "cnn-rnn-captioner-tiny",
    ],
)
def test_random_questions_of_every_task_are_answered_and_are_the_same_each_time(name, manifest_of):
    checkpoint = checkpoint_named(name)
    manifest = manifest_of(checkpoint)
    asked = random_questions(checkpoint, manifest, False, {})
    again = random_questions(checkpoint, manifest, False, {})
    assert all(np.array_equal(asked.feeds[one], again.feeds[one]) for one in asked.feeds)
    answers = answers_of(eager_runners(checkpoint.graphs(), torch.float32), asked)
    assert not asked.real
    assert answers.accuracy is None
    assert (answers.greedy is None) == (asked.truth is None)
    assert all(np.isfinite(values).all() for values in answers.values.values())
    if asked.truth is not None:
        assert answers.values[LOGITS].shape[:2] == (asked.count, asked.truth.shape[1] - 1)


def test_a_large_model_is_asked_little(manifest_of):
    checkpoint = checkpoint_named("gpt2-tiny")
    few = random_questions(checkpoint, manifest_of(checkpoint), True, {})
    many = random_questions(checkpoint, manifest_of(checkpoint), False, {})
    assert (few.count, many.count) == (2, 5)
    assert few.truth.size < many.truth.size / 2


@pytest.fixture
def manifest_of():
    from dataclasses import replace

    from attendant.manifest import Manifest
    from export.graph.axes import axes_of

    def manifest_of(checkpoint):
        graphs = tuple(replace(graph.signature, axes=axes_of(graph)) for graph in checkpoint.graphs())
        task = checkpoint.family.task.name
        details = checkpoint.serving_details()
        return Manifest(name=checkpoint.name, task=task, family="", config={}, graphs=graphs, files={}, details=details)

    return manifest_of
