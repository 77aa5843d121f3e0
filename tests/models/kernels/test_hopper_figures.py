"""Hopper's prefill as Triton compiles it for sm_90: TMA, wgmma, warp groups of their own, and nothing spilled."""

import json

import pytest
import triton

from attendant.errors import ConfigError
from benchmarks.gpu.candidates import searches
from models.kernel_configs import tuned
from models.kernel_configs.gpu_targets import GPU_TARGETS
from models.kernel_configs.heads import HeadsConfig
from models.kernels.hopper_figures import CASES, DOCUMENT, FIGURES, compile_case, measure, table
from models.kernels.hopper_flash_attention import KERNEL, grid, specialise
from models.kernels.ptxas import assemble
from tests.models.kernels.test_assemblers import newest_assembler
from tests.nvidia.compilers import folder_of
from tests.nvidia.nvjitlink import Linker

READ = json.loads(FIGURES.read_text())
RECORDED = READ["triton"].get(triton.__version__, READ["triton"][READ["shown"]])
QUICK = "128, causal, bfloat16"
every_compiler = pytest.mark.parametrize("version", READ["triton"])
every_case = pytest.mark.parametrize(
    "case", [c if c == QUICK else pytest.param(c, marks=pytest.mark.slow) for c in CASES]
)


@pytest.fixture(scope="module")
def made():
    return compile_case(QUICK)


@every_case
def test_it_compiles_and_takes_what_is_recorded(case):
    assert measure(case) == RECORDED[case]


@every_compiler
def test_every_case_loads_by_tma_multiplies_by_wgmma_and_moves_registers_without_loss(version):
    figures = READ["triton"][version]
    assert list(figures) == list(CASES)
    for case, figure in figures.items():
        size, _, _ = CASES[case]
        assert (figure["spilled_bytes"], figure["losses"], figure["threads"]) == (0, 0, 384)
        assert figure["stages"] >= 2 and figure["shared_bytes"] <= GPU_TARGETS["sm_90"].shared_bytes
        # Queries of two halves, keys, and values that are whole or are not; each half stores.
        assert (figure["tma_loads"], figure["tma_stores"]) == (5, 2)
        # Of two halves: the first scores and the next ones, and weights of tiles within the loop and of the last.
        assert figure["wgmma"] == 2 * (2 * size // 16 + 2 * 128 // 16)
        assert figure["barriers"] == 5 + 4 * figure["stages"]
        assert figure["register_moves"] >= 3
    assert figures[QUICK]["registers"] <= 65536 // 384


def test_the_document_shows_the_recorded_figures():
    assert table(READ["triton"][READ["shown"]]) in DOCUMENT.read_text()


def test_the_registers_of_three_warp_groups_are_those_of_the_launch(made):
    moves = [line.split()[-1] for line in made.ptx.splitlines() if "setmaxnreg" in line]
    assert {"232;", "40;"} <= set(moves)
    assert ".maxnreg 168" in made.ptx and 2 * 232 + 40 <= 3 * 168
    assert made.architecture == "sm_90a"


@pytest.mark.planted
def test_products_that_would_run_one_after_another_are_noticed(made):
    without_waiting = made.ptx.replace("wgmma.wait_group.sync.aligned 1;", "")
    assert without_waiting != made.ptx
    (loss, *_) = assemble(without_waiting, made.architecture).losses
    assert "serialized" in loss


def test_the_newest_assembler_neither_spills_nor_serialises(made):
    report = assemble(made.ptx, made.architecture, newest_assembler())
    assert (report.spilled_bytes, report.losses) == (0, ())


@pytest.mark.parametrize("version", ["12.8", "13.0", "13.5"])
def test_every_linker_makes_machine_code_of_it(made, version):
    linker = Linker(folder_of(f"nvjitlink-{version}"))
    assert linker.link(made.ptx, made.architecture).startswith(b"\x7fELF")


@pytest.mark.parametrize(
    ("target", "changed", "message"),
    [
        ("sm_100", {}, "sm_90, which has wgmma; found sm_100"),
        ("sm_90", {"head_size": 96}, "a head size of 64 or 128; found 96"),
        ("sm_90", {"dtype": "float32"}, "half precision; found float32"),
    ],
)
def test_what_there_is_no_kernel_for_is_refused(target, changed, message):
    known = {"heads": 4, "kv_heads": 2, "head_size": 64, "dtype": "float16", "scale": 0.1}
    with pytest.raises(ConfigError, match=message):
        specialise(HeadsConfig(**known | changed), True, GPU_TARGETS[target])


def test_a_block_has_128_queries_of_a_head():
    heads = HeadsConfig(heads=4, kv_heads=2, head_size=64, dtype="float16", scale=0.1)
    assert grid(specialise(heads, True, GPU_TARGETS["sm_90"]), batch=3, queries=129) == (12, 2)


@pytest.mark.parametrize("size", [64, 128])
def test_tiles_that_are_tried_on_a_gpu_are_those_of_its_kernel(monkeypatch, size):
    found = {search.shape: search for search in searches(False, GPU_TARGETS["sm_90"]) if search.kernel == KERNEL}
    search = found[f"16 bits, heads of {size}"]
    assert search.rule(GPU_TARGETS["sm_90"]) in search.candidates and len(search.candidates) >= 4
    for tiles in search.candidates:
        monkeypatch.setattr(tuned, "TABLE", {"sm_90": {KERNEL: {search.shape: tiles}}})
        made = search.specialised(GPU_TARGETS["sm_90"])
        assert (made.stages, made.boxes["k"]) == (tiles.stages, (1, tiles.keys, size))


def test_no_other_gpu_tries_them():
    assert KERNEL not in {search.kernel for search in searches(False, GPU_TARGETS["sm_100"])}
