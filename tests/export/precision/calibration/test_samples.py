"""Where samples come from, and what a reader is told who gives none, or the wrong ones."""

import os
import shutil
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from attendant.errors import InputError
from attendant.images import pixels_from_file
from attendant.manifest import Manifest
from export.precision.calibration import samples as module
from export.precision.calibration.samples import samples_for
from models.checkpoints.resolve import checkpoint_named
from models.train.date_data import held_out as held_out_dates
from models.train.digit_data import held_out, training_images


@pytest.fixture(scope="module")
def digits():
    """The shipped classifier and the signature of its graph."""
    checkpoint = checkpoint_named("digits-vit")
    return checkpoint, checkpoint.graphs()[0].signature


@pytest.fixture(scope="module")
def dates():
    """The shipped translator and the signature of its encoder."""
    checkpoint = checkpoint_named("dates-transformer")
    return checkpoint, checkpoint.graphs()[0].signature


def pixels_of(samples):
    return {feed["pixels"].tobytes() for feed in samples.feeds}


def write(path, **arrays):
    np.savez(path, **arrays)
    return path


def test_a_shipped_classifier_is_calibrated_with_images_that_it_was_trained_on_and_no_others(digits):
    samples = samples_for(*digits, None)
    assert len(samples.feeds) == module.MOST
    assert pixels_of(samples) <= {image.tobytes() for image in training_images()[0]}
    assert not pixels_of(samples) & {image.tobytes() for image in held_out()[0]}


def test_the_same_samples_have_the_same_hash_and_others_another(digits):
    first, again = samples_for(*digits, None), samples_for(*digits, None)
    assert first.sha256 == again.sha256
    assert replace(first, feeds=first.feeds[1:]).sha256 != first.sha256


def test_a_shipped_translator_is_calibrated_with_dates_that_it_was_trained_on(dates):
    tokenizer = module.load_tokenizer(dates[0].folder)
    texts = {tokenizer.decode(feed["source_ids"][0].tolist()) for feed in samples_for(*dates, None).feeds}
    assert len(texts) == module.MOST
    assert not texts & {text for text, _ in held_out_dates()}


def test_a_graph_that_takes_bytes_is_given_bytes(digits):
    checkpoint, _ = digits
    signature = checkpoint.graphs(uint8=True)[0].signature
    sample = samples_for(checkpoint, signature, None).feeds[0]["pixels"]
    assert (sample.dtype, sample.shape) == (np.uint8, (1, 8, 8, 1))
    np.testing.assert_allclose(sample[0, :, :, 0] / 255, training_images()[0][0, 0], atol=0.5 / 255)


def test_a_folder_of_images_goes_through_the_checkpoints_own_preprocessing(digits, tmp_path):
    (tmp_path / "inner").mkdir()
    for name in ("b.png", "inner/a.png"):
        Image.fromarray(np.random.default_rng(len(name)).integers(256, size=(20, 20), dtype=np.uint8)).save(
            tmp_path / name
        )
    (tmp_path / ".hidden").write_text("no image")
    samples = samples_for(*digits, tmp_path)
    assert samples.source == tmp_path.name
    wanted = pixels_from_file(tmp_path / "b.png", digits[0].details["preprocessing"])[None]
    np.testing.assert_array_equal(samples.feeds[0]["pixels"], wanted)
    assert len(samples.feeds) == 2


def test_each_line_of_a_file_is_a_text_and_a_long_one_is_cut(dates, tmp_path):
    path = tmp_path / "dates.txt"
    path.write_text("4 july 1776\n\n" + "1 may 1900 " * 30, encoding="utf-8")
    first, second = samples_for(*dates, path).feeds
    assert first["source_ids"].shape == first["source_mask"].shape == (1, len("4 july 1776"))
    assert second["source_ids"].shape == (1, 48)


def test_a_prompt_leaves_room_for_an_answer_and_a_text_to_embed_has_types(language_model, text_encoder, tmp_path):
    (tmp_path / "texts").write_text("once upon a time " * 200, encoding="utf-8")
    for folder, names in ((language_model, {"token_ids"}), (text_encoder, {"token_ids", "mask", "token_types"})):
        manifest = Manifest.read(folder)
        checkpoint = checkpoint_named(manifest.source)
        (sample,) = samples_for(checkpoint, manifest.graphs[0], tmp_path / "texts").feeds
        assert sample.keys() == names
        assert sample["token_ids"].shape[1] <= manifest.details["max_length"] - (names == {"token_ids"})


def test_tensors_of_a_file_are_taken_one_by_one_and_of_many_as_many_as_are_used_evenly_spread(digits, tmp_path):
    pixels = np.random.default_rng(0).random((3 * module.MOST, 1, 8, 8), dtype=np.float32)
    samples = samples_for(*digits, write(tmp_path / "some.npz", pixels=pixels))
    assert len(samples.feeds) == module.MOST
    np.testing.assert_array_equal(samples.feeds[0]["pixels"], pixels[:1])
    np.testing.assert_array_equal(samples.feeds[-1]["pixels"], pixels[-1:])


@pytest.mark.parametrize(
    ("arrays", "told"),
    [
        ({"images": np.zeros((2, 1, 8, 8), np.float32)}, r"tensors \['pixels'\] .*found {'images': \[2, 1, 8, 8\]}"),
        ({"pixels": np.zeros((2, 1, 9, 8), np.float32)}, r"\[batch, 1, 8, 8\]; found float32 \[1, 1, 9, 8\]"),
        ({"pixels": np.zeros((2, 1, 8, 8), np.float64)}, "of type float32 .*found float64"),
        ({"pixels": np.float32(1)}, r"as many samples each in .*found {'pixels': \[\]}"),
        ({"pixels": np.zeros((0, 1, 8, 8), np.float32)}, "at least one sample in .*found none"),
        ({"pixels": np.full((2, 1, 8, 8), np.nan, np.float32)}, "finite numbers in .*found NaN or infinity in 2 sam"),
    ],
)
def test_tensors_of_another_model_are_refused_by_name_type_and_shape(digits, tmp_path, arrays, told):
    with pytest.raises(InputError, match=told):
        samples_for(*digits, write(tmp_path / "some.npz", **arrays))


def test_a_model_without_data_of_its_own_needs_a_file(digits):
    foreign = replace(digits[0], name="my-digits")
    with pytest.raises(InputError, match=r"to calibrate my-digits with.*name a folder of images.*with --calibration"):
        samples_for(foreign, digits[1], None)


def test_what_cannot_be_read_is_refused_by_name(digits, dates, tmp_path):
    shutil.copyfile(__file__, tmp_path / "code.npz")
    (tmp_path / "noise").write_bytes(b"\xff\xfe\xff")
    os.truncate(write(tmp_path / "cut.npz", pixels=np.zeros((1, 1, 8, 8), np.float32)), 200)
    preset = replace(digits[0], details={})
    Image.new("L", (8, 8)).save(tmp_path / "a.png")
    for checkpoint, path, told in (
        (digits, tmp_path / "cut.npz", "arrays of numbers in .*BadZipFile"),
        (digits, tmp_path / "nowhere", "nothing at .*nowhere"),
        (digits, tmp_path / "code.npz", "arrays of numbers in .*code.npz"),
        (digits, tmp_path / "noise", "an image file at .*noise"),
        (dates, tmp_path / "noise", "UTF-8 text, one sample a line"),
        ((preset, digits[1]), tmp_path / "a.png", "says how an image is prepared"),
        ((replace(dates[0], folder=None), dates[1]), __file__, "the preset dates-transformer, which has none"),
    ):
        with pytest.raises(InputError, match=told):
            samples_for(*checkpoint, module.Path(path))
