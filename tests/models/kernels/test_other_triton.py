"""What is proved of compiled kernels, proved under the other Triton: 3.7.1, which CUDA builds of torch 2.13 demand."""

import subprocess
import sys
from pathlib import Path

import pytest
import triton

from tests.models.kernels.processes import ROOT, environment_with, pytest_in_a_process, require_success
from tests.nvidia.compilers import folder_of

VERSIONS = ("3.7.1", "3.9.0")
HERE = Path(__file__).parent
PROOFS = [HERE / f"test_{name}.py" for name in ("figures", "compile", "assemblers", "just_in_time", "hopper_figures")]


@pytest.mark.timeout(2400)  # every kernel is compiled for every target
@pytest.mark.parametrize("half", ["not slow", pytest.param("slow", marks=pytest.mark.slow)])
def test_every_proof_of_compiled_kernels_holds_under_the_other_triton(half):
    (other,) = (version for version in VERSIONS if version != triton.__version__)
    environment = environment_with(f"PYTHONPATH={folder_of(f'triton-{other}')}:{ROOT}")
    said = [*environment, sys.executable, "-c", "import triton; print(triton.__version__)"]
    assert subprocess.run(said, capture_output=True, text=True, check=True).stdout.strip() == other
    done = pytest_in_a_process("-m", half, *PROOFS, environment=environment)
    require_success(done)
    assert "passed" in done.stdout
