import pytest
import torch

from attendant.errors import MachineError
from models.kernels.flash_attention import flash_attention


def test_a_cpu_runs_no_kernel_in_a_process_that_compiles():
    q = torch.zeros(1, 1, 1, 16)
    with pytest.raises(MachineError, match="set TRITON_INTERPRET=1 before Triton is imported"):
        flash_attention(q, q, q, torch.ones(1, dtype=torch.int32))
