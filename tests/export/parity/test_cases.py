import itertools

import numpy as np
import pytest

from attendant.signature import Axis, TensorSpec
from export.parity.cases import (
    Decoding,
    caption_cases,
    compositions,
    generation_cases,
    image_cases,
    source_cases,
    translation_cases,
    two_way,
)

PIXELS = TensorSpec(name="pixels", dtype="float32", axes=("batch", 3, 4, 4))
DECODING = Decoding(vocabulary=31, capacity=8)
CASES = {
    "translation": list(translation_cases(DECODING, 31, longest_source=12)),
    "translation by single steps": list(
        translation_cases(Decoding(vocabulary=31, capacity=40, single_steps=True), 31, longest_source=12)
    ),
    "generation": list(generation_cases(DECODING)),
    "captions": list(caption_cases(DECODING, PIXELS, {})),
}


def test_compositions_are_all_of_them_once():
    found = compositions(5)
    assert len(set(found)) == len(found) == 2**4
    assert all(sum(split) == 5 and min(split) > 0 for split in found)


def test_long_targets_are_composed_over_their_first_six():
    assert {sum(split) for split in compositions(512)} == {6}


def test_two_way_splits_are_all_of_them_up_to_32_and_spread_beyond():
    assert two_way(4) == [(1, 3), (2, 2), (3, 1)]
    spread = two_way(512)
    assert len(spread) == 32
    assert spread[0] == (1, 511) and spread[-1] == (511, 1)


def test_sources_have_rows_of_different_lengths_and_none_is_empty():
    masks = [case.mask for case in source_cases(31, 12)]
    assert all(mask.any(axis=1).all() for mask in masks)
    assert any((~mask).any() for mask in masks)


@pytest.mark.parametrize("kind", CASES)
def test_every_decode_case_covers_every_position_of_every_row(kind):
    for case in CASES[kind]:
        rows, length = case.target.shape
        covered = {(row, start[row] + step) for size, start in case.chunks for row, step in np.ndindex(rows, size)}
        assert covered == set(itertools.product(range(rows), range(length))), case.name


@pytest.mark.parametrize("kind", ["translation", "generation", "captions"])
def test_one_case_has_rows_at_different_positions(kind):
    assert any(len(set(start.tolist())) > 1 for case in CASES[kind] for _, start in case.chunks)


def test_every_caption_has_an_image_of_its_own():
    assert all(len(case.source.pixels) == len(case.target) for case in CASES["captions"])
    assert {len(case.target) for case in CASES["captions"]} == {1, 2, 5}


SIDES = dict.fromkeys(("height", "width"), Axis(min=2, opt=8, max=8))
VARYING = TensorSpec(name="pixels", dtype="float32", axes=("batch", 3, "height", "width"))


def test_images_whose_sides_vary_are_small_wide_and_high_too():
    shapes = [case.pixels.shape for case in image_cases(VARYING, SIDES)]
    assert shapes[:4] == [(batch, 3, 8, 8) for batch in (1, 2, 5, 32)]
    assert shapes[4:] == [(2, 3, 2, 2), (2, 3, 3, 8), (2, 3, 8, 3)]
    captioned = {case.source.pixels.shape[2:] for case in caption_cases(DECODING, VARYING, SIDES)}
    assert captioned == {(8, 8), (2, 2), (3, 8), (8, 3)}


def test_every_case_of_images_has_a_name_of_its_own():
    names = [case.name for case in image_cases(VARYING, SIDES)]
    assert len(set(names)) == len(names)


def test_captions_have_two_lengths_also_where_the_cache_holds_more_than_is_tried():
    for capacity, lengths in ((8, {4, 8}), (1024, {256, 512}), (1, {1})):
        cases = caption_cases(Decoding(vocabulary=31, capacity=capacity, single_steps=True), PIXELS, {})
        assert {case.target.shape[1] for case in cases} == lengths


def test_a_graph_of_single_steps_is_never_given_more():
    assert all(size == 1 for case in CASES["translation by single steps"] for size, _ in case.chunks)
