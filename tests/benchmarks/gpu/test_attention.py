import sys
from dataclasses import replace

import pytest
import torch

from attendant.errors import MachineError
from benchmarks.gpu import attention
from benchmarks.gpu.attention import Measured, measure, reaches, report
from benchmarks.gpu.cases import Case
from benchmarks.gpu.clock import Roofs

LIMITS = Roofs(bytes_per_second=2e12, flops=1e15)


def measured(kind="prefill", ours=1.0, rivals=(0.95, 2.0), moved_bytes=10**9, cached=0):
    times = {f"library {number}": time for number, time in enumerate(rivals)}
    return Measured(
        kind=kind, name="a case", ours=ours, rivals=times, flops=10**11, moved_bytes=moved_bytes, cached=cached
    )


@pytest.mark.parametrize(
    ("one", "verdict"),
    [
        (measured(), True),
        (measured(ours=1.1), False),
        (measured(rivals=()), None),
        (measured(rivals=(None,)), None),
        (measured(kind="decode", rivals=(1.2,), cached=1024), True),
        (measured(kind="decode", rivals=(1.2,), cached=4096), False),
        (measured(kind="decode", rivals=(1.2,), cached=4096, moved_bytes=17 * 10**8), True),
        (measured(kind="windows", rivals=(1.9,)), False),
        (measured(kind="windows", rivals=(2.1, None)), True),
        (measured(kind="append", rivals=(9.0,), cached=64), None),
    ],
)
def test_a_case_reaches_its_target_by_the_fastest_library_and_behind_long_caches_by_the_bandwidth_too(one, verdict):
    assert reaches(one, LIMITS) is verdict


def test_a_decoder_is_held_to_the_bandwidth_and_others_to_the_nearer_roof():
    assert measured(kind="decode", cached=1).roof_part(LIMITS) == 0.5
    assert measured().roof_part(LIMITS) == 0.5
    assert measured(moved_bytes=1).roof_part(LIMITS) == pytest.approx(0.1)


def test_the_report_has_a_table_a_kind_with_a_column_a_library():
    refused = replace(measured(rivals=(0.95, None)), refused={"library 1": "no GPU"})
    untold = measured(kind="additive", rivals=(3.0,))
    text = "\n".join(report([refused, measured(kind="decode", cached=4096), untold], LIMITS))
    assert text.startswith("- copy bandwidth: 2000 GB/s")
    assert "| case | ours ms | library 0 ms | library 1 ms | × best | % roof | target |" in text
    assert "| a case | 1.0000 | 0.9500 |  | 0.95 | 50 | reached |" in text
    assert "windows" not in text
    assert "## additive: no target" in text and "| a case | 1.0000 | 3.0000 | 3.00 | 50 |  |" in text
    assert "- library 1, where it has no time: no GPU" in text
    assert "| a case | 1.0000 | 0.9500 | 2.0000 | 0.95 | 50 | missed |" in text


def raising(error):
    def call():
        raise error

    return call


def case_of(rivals, ours=lambda: None):
    return Case(kind="prefill", name="", ours=ours, rivals=rivals, flops=1, moved_bytes=1)


def test_a_library_that_cannot_do_it_has_no_time_but_a_reason():
    calls = []
    rivals = {"a": raising(RuntimeError("No available kernel\nat some place")), "b": raising(ValueError("NYI"))}
    rivals["c"] = raising(torch.OutOfMemoryError("CUDA out of memory"))
    found = measure(case_of(rivals, lambda: calls.append("ours")), lambda call: call() or 1.0)
    assert (found.ours, found.rivals, calls) == (1.0, {"a": None, "b": None, "c": None}, ["ours"])
    assert found.refused == {"a": "No available kernel", "b": "NYI", "c": "CUDA out of memory"}


def test_a_broken_device_ends_the_run():
    with pytest.raises(torch.AcceleratorError):
        measure(case_of({"a": raising(torch.AcceleratorError("an illegal memory access"))}), lambda call: call() or 1.0)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_without_a_gpu_the_script_says_so_and_its_options_are_known(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["attention.py"])
    with pytest.raises(MachineError, match="a CUDA device"):
        attention.main()
    monkeypatch.setattr(sys, "argv", ["attention.py", "--help"])
    with pytest.raises(SystemExit, match="0"):
        attention.main()
    assert "--out" in capsys.readouterr().out
