import itertools

import numpy as np

from export.ladder_cases import compositions, decode_cases, source_cases, two_way
from models.presets import PRESETS

CONFIG = PRESETS["transformer-tiny"][1]


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
    masks = [case.mask for case in source_cases(CONFIG)]
    assert all(mask.any(axis=1).all() for mask in masks)
    assert any((~mask).any() for mask in masks)


def test_every_decode_case_covers_every_position_of_every_row():
    for case in decode_cases(CONFIG):
        rows, length = case.target.shape
        covered = {(row, start[row] + step) for size, start in case.chunks for row, step in np.ndindex(rows, size)}
        assert covered == set(itertools.product(range(rows), range(length))), case.name


def test_one_case_has_rows_at_different_positions():
    assert any(len(set(start.tolist())) > 1 for case in decode_cases(CONFIG) for _, start in case.chunks)
