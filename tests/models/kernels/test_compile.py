from dataclasses import replace
from types import SimpleNamespace

import pytest
import triton
import triton.language as tl

from attendant.errors import ConfigError, ExportError, UnknownNameError
from models.kernel_configs.gpu_targets import GPU_TARGETS
from models.kernel_configs.heads import HeadsConfig
from models.kernel_configs.specialisation import Specialisation
from models.kernels import combine_splits, flash_attention
from models.kernels.compile import compile_kernel, strip_ptx
from models.kernels.figures import USUAL
from models.kernels.ptx import parameters, version
from models.kernels.ptxas import assemble

pytestmark = pytest.mark.slow
PRODUCTS = {"mma": "mma.sync", "wgmma": "wgmma.mma_async", "tcgen05": "tcgen05.mma"}
COMBINE = combine_splits.specialise(64, 4, "float16")


def flash(**changed):
    heads = HeadsConfig(heads=4, kv_heads=2, head_size=64, dtype="float16", scale=0.125)
    made = flash_attention.specialise(heads, True, GPU_TARGETS["sm_90"])
    return replace(made, constants={**made.constants, **changed})


@triton.jit
def copy_by_descriptor(source: tl.tensor, length: tl.tensor, out: tl.tensor) -> None:
    described = tl.make_tensor_descriptor(source, [length, 64], [64, 1], [32, 64])
    tl.store(out + tl.arange(0, 32)[:, None] * 64 + tl.arange(0, 64)[None, :], described.load([0, 0]))


@triton.jit
def square_and_add(x: tl.tensor, out: tl.tensor) -> None:
    number = tl.load(x)
    tl.store(out, number * number + number)


def test_the_entry_takes_the_arguments_of_the_kernel_and_no_more():
    made = compile_kernel(COMBINE, "sm_80")
    kinds = [declared.split()[1] for declared in parameters(made.ptx)]
    assert kinds == [{"*": ".u64"}.get(kind[0], ".u32") for kind in COMBINE.types.values()]
    assert made.name == "combine_splits_kernel"
    assert f".entry {made.name}(" in made.ptx
    assert made.threads == 32 * COMBINE.warps
    assert f".reqntid {made.threads}" in made.ptx


def test_the_same_source_gives_the_same_text_which_names_no_file():
    first, second = compile_kernel(COMBINE, "sm_80").ptx, compile_kernel(COMBINE, "sm_80").ptx
    assert first == second
    assert "combine_splits.py" not in first
    assert ".loc" not in first


def test_a_kernel_with_scratch_memory_is_refused():
    types = {"source": "*fp16", "length": "i32", "out": "*fp16"}
    made = Specialisation(kernel=copy_by_descriptor, types=types, constants={}, warps=4, stages=1)
    with pytest.raises(ExportError, match=r"a kernel without scratch memory.*bytes a block"):
        compile_kernel(made, "sm_90")


def test_parameters_that_are_not_those_of_triton_are_refused():
    metadata = SimpleNamespace(global_scratch_size=0, profile_scratch_size=0)
    ptx = compile_kernel(COMBINE, "sm_80").ptx
    with pytest.raises(ExportError, match="4 parameters for 4 arguments"):
        strip_ptx(ptx, COMBINE.types, metadata)


def test_the_version_of_ptx_is_capped_at_what_the_driver_understands():
    assert version(compile_kernel(COMBINE, "sm_80").ptx) == 87
    older = compile_kernel(COMBINE, "sm_80", ptx_version=80)
    assert version(older.ptx) == 80
    assert assemble(older.ptx, "sm_80").registers == older.report.registers


def test_a_version_of_ptx_that_does_not_know_the_target_is_refused():
    with pytest.raises(ConfigError, match=r"PTX 8\.6 or newer for sm_100; found 8\.4"):
        compile_kernel(COMBINE, "sm_100", ptx_version=84)
    with pytest.raises(ConfigError, match=r"PTX 9\.0 or newer for sm_110; found 8\.7"):
        compile_kernel(COMBINE, "sm_110", ptx_version=87)


@pytest.mark.parametrize(("target", "oldest"), [("sm_103", 88), ("sm_110", 90), ("sm_120", 87), ("sm_121", 88)])
def test_a_target_that_came_later_gets_the_first_ptx_that_knows_it(target, oldest):
    assert version(compile_kernel(COMBINE, target).ptx) == oldest


def test_a_kernel_that_needs_more_shared_memory_than_the_target_has_is_refused():
    large = flash(BLOCK_S=128, BLOCK_T=256)
    with pytest.raises(ExportError, match=r"at most 101376 bytes.*choose smaller tiles.*sm_86"):
        compile_kernel(large, "sm_86", spills_allowed=True)


def test_whoever_launches_may_have_less_shared_memory_than_the_target():
    with pytest.raises(ExportError, match="at most 49152 bytes"):
        compile_kernel(flash(), "sm_90", shared_limit_bytes=49152)


def test_a_kernel_that_spills_is_refused_unless_that_is_allowed():
    cramped = replace(combine_splits.specialise(256, 64, "float16"), warps=1)
    with pytest.raises(ExportError, match=r"bytes spilled at \d+ registers for sm_80.*more warps"):
        compile_kernel(cramped, "sm_80")
    assert compile_kernel(cramped, "sm_80", spills_allowed=True).report.spilled_bytes > 0


def test_an_unknown_target_is_refused():
    with pytest.raises(UnknownNameError):
        compile_kernel(COMBINE, "sm_70")


@pytest.mark.parametrize("target", GPU_TARGETS)
def test_products_run_on_the_matrix_unit_of_the_target(target):
    made = compile_kernel(USUAL["flash_attention"](GPU_TARGETS[target]), target)
    found = [unit for unit, product in PRODUCTS.items() if product in made.ptx]
    assert found == [GPU_TARGETS[target].matrix_unit]
    assert f".reqntid {made.threads}" in made.ptx


def test_stages_load_ahead_and_one_stage_does_not():
    two, one = (compile_kernel(replace(flash(BLOCK_T=32), stages=stages), "sm_90") for stages in (2, 1))
    assert (two.stages, one.stages, one.async_copies) == (2, 1, 0)
    assert two.async_copies > 0 and two.shared_bytes > one.shared_bytes


def test_products_and_sums_are_fused():
    types = {"x": "*fp32", "out": "*fp32"}
    made = Specialisation(kernel=square_and_add, types=types, constants={}, warps=1, stages=1)
    assert "fma.rn.f32" in compile_kernel(made, "sm_80").ptx


def test_ptx_that_is_none_is_refused():
    with pytest.raises(ExportError, match="PTX for sm_80"):
        assemble("nonsense", "sm_80")
