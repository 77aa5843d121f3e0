"""Whatever benchmarks/gpu/attention.py times beside each other computes the same."""

import pytest

from benchmarks.gpu.cases import decode, prefill, windows
from tests.models.agreement import difference

CASES = {
    "causal prefill": prefill(1, 2, 1, 20, 16, True, "cpu"),
    "encoder": prefill(2, 2, 2, 17, 32, False, "cpu"),
    "decode": decode(2, 4, 2, 300, 16, 4, "cpu"),
    "windows": windows(1, 8, 2, 16, 4, 0, False, "cpu"),
    "shifted windows": windows(2, 8, 2, 16, 4, 2, False, "cpu"),
}


@pytest.mark.filterwarnings("ignore")  # of PyTorch, where a library does not run on a CPU
@pytest.mark.parametrize("name", CASES)
def test_every_library_that_runs_on_a_cpu_agrees_with_our_kernel(name):
    wanted, agreed = CASES[name].ours().float(), []
    for library, call in CASES[name].rivals.items():
        try:
            found = call()
        except RuntimeError:
            continue
        assert difference(found.float(), wanted) <= 4e-3
        agreed.append(library)
    assert len(agreed) >= (2 if "windows" in name else 1)
