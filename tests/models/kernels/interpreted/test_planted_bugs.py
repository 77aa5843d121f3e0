"""A line of each kernel is changed in a copy of the package: the very comparisons that the kernel passes must fail."""

import sys
from importlib import invalidate_caches
from pathlib import Path

import pytest

import models.kernels
from tests.models.kernels.cases import KERNELS, TOLERANCES, additive, append, decode, flash, skinny, windows, worst

SOURCES = Path(models.kernels.__file__).parent
GROUPED = {"heads": 4, "kv_heads": 2, "size": 16}
CALLS = {
    "flash": (flash, {"queries": 40, "capacity": 90, "lengths": [85, 20], "causal": True, **GROUPED}),
    "full": (flash, {"queries": 2, "capacity": 90, "lengths": [85, 20], "causal": False, **GROUPED}),
    "decode": (decode, {"queries": 3, "capacity": 300, "lengths": [290, 130], "causal": True, **GROUPED}),
    "append": (append, {"queries": 3, "capacity": 300, "lengths": [290, 126], "causal": True, **GROUPED}),
    "windows": (windows, {"window": 4, "shift": 1, "cosine": True}),
    "additive": (additive, {}),
    "gated": (skinny, {"rows": 2, "width": 2500, "norm": "layer", "around": "gate"}),
    "added": (skinny, {"rows": 2}),
}
BUGS = {
    "upper-left instead of lower-right": ("flash", "flash_attention", "(s_S + past)", "s_S"),
    "keys behind the length are seen": (
        "full",
        "flash_attention",
        "seen_ST = (t_T < readable)[None, :]",
        "seen_ST = (t_T < readable + 1)[None, :]",
    ),
    "a tile too much without a mask": (
        "flash",
        "flash_attention",
        "past + tile * BLOCK_S + 1",
        "past + (tile + 1) * BLOCK_S",
    ),
    "the wrong key head": ("flash", "flash_attention", "row % HEADS // (HEADS // KV_HEADS)", "row % KV_HEADS"),
    "sums are not rescaled": ("flash", "online_softmax", "weighted_SD * shrink_S[:, None]", "weighted_SD"),
    "a new position sees a later one": ("decode", "decode_attention", "(s_R + past)", "(s_R + past + 1)"),
    "a split misses its last tile": (
        "decode",
        "decode_attention",
        "(split + 1) // SPLITS * BLOCK_T",
        "(split + 1) // SPLITS * BLOCK_T - BLOCK_T",
    ),
    "splits weigh alike": (
        "decode",
        "combine_splits",
        "weight_N = tl.exp2(base_N - ",
        "weight_N = tl.exp2(0 * n_N + 0 * ",
    ),
    "queries are turned by another position": ("append", "decode_append_attention", "angle + s_R", "angle + 0 * s_R"),
    "pairs turn the other way": (
        "append",
        "rotary",
        "tl.where(first_D[None, :], -sin_RD, sin_RD)",
        "tl.where(first_D[None, :], sin_RD, -sin_RD)",
    ),
    "new values are not written": (
        "append",
        "decode_append_attention",
        "store_rows(present_v + cache, past + i_N, i_N < fits",
        "store_rows(present_v + cache, past + i_N, i_N < 0",
    ),
    "new positions are not seen": (
        "append",
        "decode_append_attention",
        "masked_scores(q_RD, k_ND, i_N, s_R, fits, 0, True, PRECISION)",
        "masked_scores(q_RD, k_ND, i_N, s_R, 0, 0, True, PRECISION)",
    ),
    "edges of the shifted map are forgotten": (
        "windows",
        "window_attention",
        "region_S[:, None] == region_T[None, :]",
        "region_S[:, None] >= 0",
    ),
    "offsets run the other way": (
        "windows",
        "window_attention",
        "s_S[:, None] // WINDOW - t_T[None, :] // WINDOW",
        "t_T[None, :] // WINDOW - s_S[:, None] // WINDOW",
    ),
    "one scale for all heads": ("windows", "window_attention", "tl.load(scales + head)", "tl.load(scales)"),
    "padding is seen": (
        "additive",
        "additive_attention",
        'tl.where(seen_S, scores_S, -float("inf"))',
        'tl.where(inside_S, scores_S, -float("inf"))',
    ),
    "a norm's mean is another row's": (
        "gated",
        "skinny_product",
        "tl.where(n_N == row, mean_N, 0.0)",
        "tl.where(n_N == 0, mean_N, 0.0)",
    ),
    "behind a row's end is not nothing": (
        "gated",
        "skinny_product",
        "tl.where(e_E < WIDTH, load_part(row, e_E, WIDTH) - mean, 0.0)",
        "load_part(row, e_E, WIDTH) - mean",
    ),
    "gates and what they scale change places": (
        "gated",
        "skinny_product",
        "sum_NF / (1.0 + tl.exp(-sum_NF)) * scaled_NF",
        "scaled_NF / (1.0 + tl.exp(-scaled_NF)) * sum_NF",
    ),
    "a residual is another row's": (
        "added",
        "skinny_product",
        "tl.load(residual + place_NF",
        "tl.load(residual + 0 * n_N[:, None] + f_F[None, :]",
    ),
    "tanh is a sigmoid": ("additive", "additive_attention", "2.0 / (1.0 +", "1.0 / (1.0 +"),
}


@pytest.mark.parametrize("call", CALLS)
def test_without_a_bug_the_comparison_passes(call):
    case, sizes = CALLS[call]
    assert worst(case(**sizes)) <= TOLERANCES["float32"]


@pytest.mark.planted
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(bug, tmp_path, monkeypatch):
    call, stem, line, instead = BUGS[bug]
    case, sizes = CALLS[call]
    package = plant(stem, line, instead, tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert worst(case(package=package, **sizes)) > 100 * TOLERANCES["float32"]


def plant(stem, line, instead, folder):
    package = f"planted_{len(sys.modules)}"
    (folder / package).mkdir()
    for source in SOURCES.glob("*.py"):
        text = source.read_text()
        if source.stem == stem:
            assert text.count(line) == 1, (stem, line)
            text = text.replace(line, instead)
        (folder / package / source.name).write_text(text.replace(KERNELS, package))
    invalidate_caches()
    return package
