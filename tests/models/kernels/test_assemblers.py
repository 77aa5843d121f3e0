"""All PTX under NVIDIA's newest assembler, and under linkers of the oldest and newest drivers that may load it."""

import pytest
import triton

from attendant.errors import ExportError
from models.kernels.figures import USUAL, WITHOUT_LEAVE, compile_usual
from models.kernels.ptx import version
from models.kernels.ptxas import assemble
from tests.models.kernels.test_figures import TARGETS
from tests.nvidia.compilers import folder_of
from tests.nvidia.nvjitlink import Linker, LinkError

KERNELS = [*USUAL, *WITHOUT_LEAVE]
NEWEST_PTX = {"12.8": 87, "13.0": 90, "13.5": 95}
"""nvJitLink → ten times the newest version of PTX that it reads."""
SPILLS = {"3.9.0": {("window_attention", "sm_80"): 24}}
"""Triton → bytes that the newest assembler writes to and reads from memory, where Triton's has registers enough."""


def newest_assembler():
    return folder_of("ptxas-13.5") / "nvidia" / "cu13" / "bin" / "ptxas"


@pytest.fixture(scope="module", params=NEWEST_PTX)
def linker(request):
    return Linker(folder_of(f"nvjitlink-{request.param}"))


@pytest.mark.parametrize("target", TARGETS)
def test_the_newest_assembler_spills_what_is_known_and_no_more(target):
    tool = newest_assembler()
    made = {kernel: compile_usual(kernel, target) for kernel in KERNELS}
    reports = {kernel: assemble(one.ptx, one.architecture, tool) for kernel, one in made.items()}
    found = {(kernel, target): report.spilled_bytes for kernel, report in reports.items() if report.spilled_bytes}
    known = SPILLS.get(triton.__version__, {})
    assert found == {place: spilled for place, spilled in known.items() if place[1] == target}


@pytest.mark.parametrize("target", TARGETS)
def test_every_linker_makes_machine_code_of_all_ptx_that_it_can_read(linker, target):
    for kernel in KERNELS:
        made = compile_usual(kernel, target)
        if version(made.ptx) <= NEWEST_PTX[linker.version]:
            assert linker.link(made.ptx, made.architecture).startswith(b"\x7fELF"), kernel
        else:
            with pytest.raises(LinkError):
                linker.link(made.ptx, made.architecture)


def test_a_linker_and_an_assembler_refuse_what_is_wrong(linker):
    made = compile_usual("combine_splits", "sm_90")
    wrong = made.ptx.replace("ld.global", "ld.globe")
    with pytest.raises(LinkError, match=r"globe|syntax"):
        linker.link(wrong, made.architecture)
    with pytest.raises(ExportError, match="PTX for sm_90a"):
        assemble(wrong, made.architecture, newest_assembler())
