"""The limits under which `make test-any-processor` runs are in force where a process has them in its environment.

They bind torch, ATen and its two libraries of kernels. ONNX Runtime and OpenVINO choose by the processor alone.
"""

import os
import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="these are names of x86's instruction sets")

FOUND = """
import torch
print(torch.backends.cpu.get_cpu_capability())
with torch.backends.mkldnn.verbose(torch.backends.mkldnn.VERBOSE_ON):
    torch.nn.functional.conv2d(torch.ones(2, 16, 24, 24), torch.ones(16, 16, 3, 3))
with torch.backends.mkl.verbose(torch.backends.mkl.VERBOSE_ON):
    torch.ones(64, 64) @ torch.ones(64, 64)
"""


@pytest.fixture(scope="module")
def kernels():
    """What a process says of its kernels that every limit binds."""
    limits = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_CBWR": "COMPATIBLE"}
    environment = os.environ | limits  # noqa: TID251
    done = subprocess.run([sys.executable, "-c", FOUND], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_aten_computes_by_avx2(kernels):
    assert kernels[0] == "AVX2"


def test_onednn_convolves_by_avx2(kernels):
    assert "onednn_verbose,v1,info,cpu,isa:Intel AVX2" in kernels


def test_mkl_multiplies_by_the_kernels_that_every_processor_has(kernels):
    (product,) = (line for line in kernels if line.startswith("MKL_VERBOSE SGEMM"))
    assert "CNR:COMPATIBLE" in product
