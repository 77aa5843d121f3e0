import json

import pytest
import triton

from models.kernel_configs.gpu_targets import GPU_TARGETS, WITHOUT_LEAVE_BYTES
from models.kernels.figures import DOCUMENT, FIGURES, USUAL, WITHOUT_LEAVE, measure, table

RECORDED = json.loads(FIGURES.read_text())
# Another assembler may allot some registers more or fewer; what a kernel lays out in shared memory is Triton's to say.
REGISTERS = 0 if RECORDED["versions"]["triton"] == triton.__version__ else 24
# Every target is compiled for; the long half of the proofs does so for all but one.
TARGETS = [pytest.param(name, marks=() if name == "sm_90" else pytest.mark.slow) for name in GPU_TARGETS]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kernel", [*USUAL, *WITHOUT_LEAVE])
def test_every_kernel_compiles_for_every_target_without_spills_and_takes_what_is_recorded(kernel, target):
    found, recorded = measure(kernel, target), RECORDED["figures"][kernel][target]
    assert abs(found.pop("registers") - recorded.pop("registers")) <= REGISTERS
    assert found == recorded


def test_the_document_shows_the_recorded_figures():
    assert table(json.loads(FIGURES.read_text())["figures"]) in DOCUMENT.read_text()


def test_kernels_of_one_block_of_shared_memory_are_known():
    least = {
        kernel for kernel, row in RECORDED["figures"].items() if row["sm_90"]["shared_bytes"] <= WITHOUT_LEAVE_BYTES
    }
    assert least >= {"combine_splits", "window_attention", "window_attention, cosine", "additive_attention"}


@pytest.mark.parametrize("kernel", WITHOUT_LEAVE)
def test_heads_of_256_fit_what_a_plugin_may_have_on_every_target(kernel):
    assert all(row["shared_bytes"] <= WITHOUT_LEAVE_BYTES for row in RECORDED["figures"][kernel].values())
    assert RECORDED["figures"][kernel].keys() == GPU_TARGETS.keys()
