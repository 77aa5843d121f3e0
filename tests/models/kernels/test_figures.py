import json
from dataclasses import replace

import pytest
import triton

from models.kernel_configs.gpu_targets import GPU_TARGETS, WITHOUT_LEAVE_BYTES
from models.kernels.figures import DOCUMENT, FIGURES, PIPELINED, USUAL, WITHOUT_LEAVE, measure, table

READ = json.loads(FIGURES.read_text())
RECORDED = READ["triton"].get(triton.__version__, READ["triton"][READ["shown"]])
# Another assembler may allot some registers more or fewer; what a kernel lays out in shared memory is Triton's to say.
REGISTERS = 0 if triton.__version__ in READ["triton"] else 24
# Every target is compiled for; the long half of the proofs does so for all but one.
TARGETS = [pytest.param(name, marks=() if name == "sm_90" else pytest.mark.slow) for name in GPU_TARGETS]
every_compiler = pytest.mark.parametrize("version", READ["triton"])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kernel", [*USUAL, *WITHOUT_LEAVE])
def test_every_kernel_compiles_for_every_target_and_takes_what_is_recorded(kernel, target):
    found, recorded = measure(kernel, target), dict(RECORDED[kernel][target])
    assert abs(found.pop("registers") - recorded.pop("registers")) <= REGISTERS
    assert found == recorded


TIMED_AS_FASTER = {"flash_attention, 256, 48 KiB": {"sm_90"}}
"""Without loads ahead: larger tiles than there would be room for two of (an H200, docs/log.md)."""


@every_compiler
def test_every_kernel_is_recorded_for_every_target_without_spills(version):
    figures = READ["triton"][version]
    assert list(figures) == [*USUAL, *WITHOUT_LEAVE]
    assert all(list(row) == list(GPU_TARGETS) for row in figures.values())
    assert all(figure["spilled_bytes"] == 0 for row in figures.values() for figure in row.values())


@every_compiler
@pytest.mark.parametrize("kernel", PIPELINED)
def test_a_loop_over_keys_loads_ahead_on_every_target(kernel, version):
    row = READ["triton"][version][kernel]
    waiting = {name for name, figure in row.items() if figure["stages"] < 2 or figure["async_copies"] == 0}
    assert waiting == TIMED_AS_FASTER.get(kernel, set())


@every_compiler
@pytest.mark.parametrize("kernel", [kernel for kernel in WITHOUT_LEAVE if kernel.startswith("flash_attention")])
def test_a_plugins_prefill_has_as_many_stages_as_its_tiles_say(kernel, version):
    for name, figure in READ["triton"][version][kernel].items():
        narrow = replace(GPU_TARGETS[name], shared_bytes=WITHOUT_LEAVE_BYTES)
        assert figure["stages"] == WITHOUT_LEAVE[kernel](narrow).stages, name


def test_the_document_shows_the_recorded_figures():
    assert table(READ["triton"][READ["shown"]]) in DOCUMENT.read_text()


def test_kernels_of_one_block_of_shared_memory_are_known():
    least = {kernel for kernel, row in RECORDED.items() if row["sm_90"]["shared_bytes"] <= WITHOUT_LEAVE_BYTES}
    assert least >= {"combine_splits", "window_attention", "window_attention, cosine", "additive_attention"}


@pytest.mark.parametrize("kernel", WITHOUT_LEAVE)
def test_what_plugins_have_fits_what_any_launch_may_have_on_every_target(kernel):
    assert all(row["shared_bytes"] <= WITHOUT_LEAVE_BYTES for row in RECORDED[kernel].values())


@pytest.mark.parametrize("unit", ["wgmma", "tcgen05"])
def test_windows_of_plugins_load_ahead_where_those_of_pytorch_do(unit):
    for target in (target for target in GPU_TARGETS.values() if target.matrix_unit == unit):
        narrow = replace(target, shared_bytes=WITHOUT_LEAVE_BYTES)
        usual, figure = USUAL["window_attention, cosine"], RECORDED["window_attention, cosine"][target.name]
        assert usual(narrow) == usual(target)
        assert figure["async_copies"] > 0 and figure["shared_bytes"] <= WITHOUT_LEAVE_BYTES
