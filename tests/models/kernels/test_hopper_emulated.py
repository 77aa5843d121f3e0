"""The device code of Hopper's prefill, run by the emulator, beside the plain reference in float64.

What lies behind a row's length is NaN, threads take turns by chance, and planted bugs must be found.
"""

import math

import pytest

from models.kernels.flash_attention_reference import flash_attention_reference
from tests.models.agreement import difference
from tests.models.kernels.cases import TOLERANCES, attention_inputs
from tests.models.kernels.gluon_emulator import EmulationError, emulate

SIZES = {
    "rows of several lengths": {"lengths": [300, 129, 64, 0], "queries": 150, "capacity": 300},
    "whole tiles": {"lengths": [256, 128], "queries": 128, "capacity": 256},
    "more queries than keys": {"lengths": [40, 1], "queries": 200, "capacity": 70},
    "a length behind the capacity": {"lengths": [500, 64], "queries": 64, "capacity": 320},
}
GROUPED = {"heads": 4, "kv_heads": 2, "size": 64}


def error_of(dtype="float16", edits=None, seed=0, block_t=64, stages=2, **sizes):
    q, k, v, lengths = attention_inputs(dtype, "cpu", **sizes)
    found = emulate(
        q, k, v, lengths, causal=sizes["causal"], block_t=block_t, stages=stages, seed=seed, edits=edits
    ).double()
    wanted = flash_attention_reference(q.double(), k.double(), v.double(), lengths, causal=sizes["causal"], scale=None)
    return math.inf if found.isnan().any() else difference(found, wanted)


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "full"])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_it_attends_as_the_reference_does(sizes, causal):
    assert error_of(causal=causal, **sizes, **GROUPED) <= TOLERANCES["float16"]


@pytest.mark.parametrize(("dtype", "size"), [("bfloat16", 64), ("float16", 128), ("bfloat16", 128)])
def test_both_types_and_head_sizes_and_the_tiles_of_serving_do(dtype, size):
    sizes = {**SIZES["rows of several lengths"], "heads": 2, "kv_heads": 1, "size": size}
    assert error_of(dtype, block_t=128, causal=True, **sizes) <= TOLERANCES[dtype]


@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("seed", range(100, 103))
def test_it_does_so_whichever_thread_runs_next_and_however_many_tiles_are_in_flight(stages, seed):
    sizes = {"lengths": [450], "queries": 130, "capacity": 450, "heads": 1, "kv_heads": 1, "size": 64}
    assert error_of(seed=seed, stages=stages, causal=True, **sizes) <= TOLERANCES["float16"]


KERNEL = "hopper_partitions"
BUGS = {
    "tiles are loaded before they are free": (KERNEL, "mbarrier.wait(v_free.index(slot), phase ^ 1)", "None"),
    "one half frees a tile for both": (
        KERNEL,
        "v_ready, v_free = allocate_barriers(STAGES, 1), allocate_barriers(STAGES, 2)",
        "v_ready, v_free = allocate_barriers(STAGES, 1), allocate_barriers(STAGES, 1)",
    ),
    "the first wait of the loader is for a phase to come": (
        KERNEL,
        "mbarrier.wait(k_free.index(slot), phase ^ 1)",
        "mbarrier.wait(k_free.index(slot), phase)",
    ),
    "keys are read before they are loaded": (KERNEL, "mbarrier.wait(k_ready.index(slot), i // STAGES & 1)", "None"),
    "a half hands its turn to itself": (KERNEL, "turn.index(1 - HALF)", "turn.index(HALF)"),
    "a tile of values is freed while it is read": (
        KERNEL,
        "mbarrier.wait(v_ready.index(before), (i - 1) // STAGES & 1)",
        "mbarrier.wait(v_ready.index(before), (i - 1) // STAGES & 1); mbarrier.arrive(v_free.index(before), count=1)",
    ),
    "scores are read before they are there": (
        KERNEL,
        "warpgroup_mma_wait(1, deps=(scoring,))",
        "warpgroup_mma_wait(2, deps=(scoring,))",
    ),
    "values behind the length are multiplied by zero": (
        KERNEL,
        "gl.where((row_R < kept)[:, None], part.load(layout), 0.0)",
        "part.load(layout)",
    ),
    "a stored tile is read without a fence": (KERNEL, "            fence_async_shared()\n", ""),
    "what a half stores is copied without a fence": (
        KERNEL,
        "    fence_async_shared()\n    store_tile",
        "    store_tile",
    ),
    "a query misses its own key": (KERNEL, "t_T[None, :] <= reach_S", "t_T[None, :] < reach_S"),
    "a key behind the length is seen": (KERNEL, "(t_T < readable)[None, :]", "(t_T <= readable)[None, :]"),
    "a tile that some do not see whole has no mask": (
        KERNEL,
        "first_s + length - queries + 1)",
        "first_s + length - queries + 64)",
    ),
    "the last tile is left out": (KERNEL, "(one_sees + BLOCK_T - 1) // BLOCK_T", "one_sees // BLOCK_T"),
    "the wrong key head": (KERNEL, "row % HEADS // (HEADS // KV_HEADS)", "row % KV_HEADS"),
    "earlier sums are not rescaled": (
        KERNEL,
        "weighted_SD * gl.convert_layout(shrink_S, gl.SliceLayout(1, out_layout))[:, None]",
        "weighted_SD",
    ),
    "the total is not rescaled": ("online_softmax", "total_S * shrink_S + ", "total_S + "),
}

SEEN_IN_FULL = {"a key behind the length is seen"}
"""Bugs that a causal mask hides."""


@pytest.mark.planted
@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_in_its_source_is_found(bug):
    stem, before, after = BUGS[bug]
    sizes = {"lengths": [330, 200], "queries": 150, "capacity": 340, **GROUPED}
    try:
        found = error_of(edits={stem: [(before, after)]}, causal=bug not in SEEN_IN_FULL, **sizes)
    except EmulationError:
        found = math.inf
    assert found > 2 * TOLERANCES["float16"]
