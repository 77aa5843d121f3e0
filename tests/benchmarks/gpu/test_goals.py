import json
import sys
from types import SimpleNamespace

import pytest
import torch

from benchmarks.gpu import goals
from benchmarks.gpu.cases import Case
from benchmarks.gpu.goals import GOALS, Fraction, compare, decide, decode_fraction, report, time_call

CPU = torch.device("cpu")


def fractions(**values):
    """A fraction a number; None is one that could not be measured."""
    return [
        Fraction(goal=goal, case="a case", measure="cuDNN", value=value, reason="" if value is not None else "no wgmma")
        for goal, numbers in values.items()
        for value in numbers
    ]


def test_the_goals_are_those_that_the_kernels_were_made_for():
    assert GOALS == {"plugin": 0.75, "hopper": 0.95, "decode": 0.85}


def test_a_fraction_is_the_fastest_librarys_time_over_ours():
    one = compare("plugin", "a case", 2.0, {"cuDNN": 1.5, "flash": 3.0})
    assert (one.value, one.measure) == (0.75, "cuDNN")


@pytest.mark.parametrize(("ours", "times"), [(None, {"cuDNN": 1.0}), (2.0, {})])
def test_what_could_not_be_timed_has_a_reason_and_no_fraction(ours, times):
    one = compare("hopper", "a case", ours, times, "no wgmma")
    assert (one.value, one.reason) == (None, "no wgmma")


@pytest.mark.parametrize(("milliseconds", "wanted"), [(1.0, 0.5), (0.5, 1.0)])
def test_decoding_is_held_to_the_bytes_a_second_of_a_copy(milliseconds, wanted):
    case = Case(kind="decode", name="a cache", ours=torch.empty, rivals={}, flops=1, moved_bytes=10**9, cached=4096)
    one = decode_fraction(case, lambda call: milliseconds, 2e12)
    assert one.value == pytest.approx(wanted)
    assert (one.goal, one.case, one.measure) == ("decode", "a cache", "a copy, 2000 GB/s")


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([0.76, 0.75], "held"),
        ([0.9, 0.749], "missed"),
        ([0.9, None], "not measured"),
        ([0.7, None], "missed"),
        ([None], "not measured"),
        ([], "not measured"),
    ],
)
def test_a_goal_is_held_if_every_case_was_measured_and_reaches_it(values, verdict):
    assert decide(fractions(plugin=values))["plugin"] == verdict
    assert decide(fractions(plugin=values), trial=True)["plugin"] == "not measured"


def test_the_page_has_a_line_a_goal_what_is_missing_and_a_row_a_case():
    found = fractions(plugin=[0.8, 0.7], hopper=[None], decode=[0.9])
    text = "\n".join(report(found, ["FlashAttention-3"]))
    assert text.startswith("- plugin: missed; goal 0.75, lowest 0.700; 2 of 2 cases measured against cuDNN\n")
    assert "- hopper: not measured; goal 0.95; 0 of 1 cases measured against nothing\n" in text
    assert "- decode: held; goal 0.85, lowest 0.900; 1 of 1 cases measured against cuDNN\n" in text
    assert "- missing here: FlashAttention-3\n" in text
    assert "| plugin | a case | cuDNN | 0.800 | 0.75 | held |" in text
    assert "| plugin | a case | cuDNN | 0.700 | 0.75 | missed |" in text
    assert "| hopper | a case | cuDNN |  | 0.95 | not measured: no wgmma |" in text


def test_flash_attention_3_is_compared_with_where_it_is_installed_and_torchs_back_ends_elsewhere(monkeypatch):
    taken = []
    package = SimpleNamespace(flash_attn_func=lambda q, k, v, causal: taken.append((q.shape, k.shape, causal)))
    q, k = torch.zeros(2, 4, 7, 64), torch.zeros(2, 1, 9, 64)
    monkeypatch.setitem(sys.modules, "flash_attn_interface", package)
    calls = goals.libraries(q, k, k, True)
    calls["FlashAttention-3"]()
    assert list(calls) == ["FlashAttention-3"] and taken == [((2, 7, 4, 64), (2, 9, 1, 64), True)]
    monkeypatch.setitem(sys.modules, "flash_attn_interface", None)
    assert list(goals.libraries(q, k, k, True)) == ["cuDNN", "flash"]


def test_the_plugins_prefill_has_the_tiles_of_48_kib_and_the_others_go_by_the_device(monkeypatch):
    targets = []
    monkeypatch.setattr(goals, "flash_attention", lambda *arguments, target: targets.append(target))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    goals.plugin_prefill(SimpleNamespace(device=torch.device("cuda")), None, None, None, True)
    assert [(target.name, target.shared_bytes) for target in targets] == [("sm_90", 49152)]


def test_a_broken_device_ends_the_run_and_a_library_that_cannot_says_why():
    def fail(error):
        raise error

    assert time_call(lambda: fail(RuntimeError("No kernel\nat some place")), lambda call: call()) == (None, "No kernel")
    with pytest.raises(torch.AcceleratorError):
        time_call(lambda: fail(torch.AcceleratorError("an illegal memory access")), lambda call: call())


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_without_a_gpu_it_says_what_is_missing_and_measures_nothing(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sys, "argv", ["goals.py", "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match="2"):
        goals.main()
    said = capsys.readouterr().err
    assert "none of the goals plugin, hopper, decode can be measured" in said
    assert "a CUDA device that torch sees: an H100 or H200" in said and "package flash_attn_interface" in said
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("milliseconds", "status"), [(1e-3, 0), (1e9, 1)])
def test_the_status_says_whether_every_goal_is_held(monkeypatch, tmp_path, milliseconds, status):
    """Of times that a clock makes up: ours, and a second for each library."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(multi_processor_count=4))
    monkeypatch.setattr(goals.torch, "device", lambda name: CPU)
    monkeypatch.setattr(goals, "roofs", lambda device: goals_roofs())
    monkeypatch.setattr(goals, "find_missing", list)
    monkeypatch.setattr(goals, "describe_gpu", dict)
    monkeypatch.setattr(goals, "prefill_cases", lambda quick: ((1, 2, 1, 8, 64, True),))
    monkeypatch.setattr(goals, "decode_cases", lambda quick: ((1, 2, 1, 64, 16),))
    libraries = {"cuDNN": lambda: "theirs"}
    monkeypatch.setattr(goals, "libraries", lambda *arguments: libraries)
    theirs = set(libraries.values())
    monkeypatch.setattr(goals, "milliseconds", lambda call, device: 1e3 if call in theirs else milliseconds)
    monkeypatch.setattr(sys, "argv", ["goals.py", "--out", str(tmp_path)])
    assert goals.main() == status
    (record,) = tmp_path.glob("*-gpu-goals.json")
    assert len(json.loads(record.read_text())["fractions"]) == 3


def goals_roofs():
    from benchmarks.gpu.clock import Roofs

    return Roofs(bytes_per_second=1e9, flops=1.0)
