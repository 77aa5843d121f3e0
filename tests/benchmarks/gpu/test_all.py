"""All benchmarks of a GPU in one: what is run, and that one that fails keeps no other from running."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from benchmarks.gpu import __main__ as everything
from benchmarks.gpu import attention, decoding, goals, prefill, tiles, vision
from benchmarks.gpu.__main__ import ROOT, steps

MODULES = {module.__name__: module for module in (attention, decoding, goals, prefill, vision)}


@pytest.fixture
def started(monkeypatch):
    asked = []

    def start(*words, failing=()):
        def run(command, cwd, check):
            assert cwd == ROOT and command[0] == sys.executable
            asked.append(command[1:])
            return SimpleNamespace(returncode=int(any(name in " ".join(command) for name in failing)))

        monkeypatch.setattr(subprocess, "run", run)
        monkeypatch.setattr(sys, "argv", ["all.py", *map(str, words)])
        return everything.main(), asked

    return start


def test_every_step_is_a_module_that_knows_its_flags(monkeypatch, capsys):
    for step in steps(False, ROOT / "benchmarks" / "results", ROOT / "build", cuda_provider=True):
        assert step.words[0] == "-m"
        if step.words[1] == "attendant":
            continue
        monkeypatch.setattr(sys, "argv", [step.words[1], "--help"])
        with pytest.raises(SystemExit, match="0"):
            MODULES[step.words[1]].main()
        text = capsys.readouterr().out
        assert all(word in text for word in step.words if word.startswith("--"))


def test_models_are_exported_only_where_onnx_runtime_can_use_the_gpu():
    names = {with_it: [step.name for step in steps(False, ROOT, ROOT, with_it)] for with_it in (True, False)}
    assert names[False] == ["goals", "attention", "decoding", "prefill", "vit", "swin", "swin-v2"]
    assert names[True] == ["goals", "attention", "export tinyllama-1.1b", "export vit-b-16", *names[False][2:]]
    exported = {step.name: step.words for step in steps(False, ROOT, ROOT / "build", True)}
    assert exported["export tinyllama-1.1b"][-1] == exported["decoding"][-1] == "build/tinyllama-1.1b"
    assert exported["export vit-b-16"][-1] == exported["vit"][-1] == "build/vit-b-16"
    assert all("--onnx" not in step.words for step in steps(True, ROOT, ROOT, True))


def test_one_that_fails_is_told_at_the_end_and_the_others_run(started, tmp_path, capsys):
    status, asked = started("--quick", "--out", tmp_path, failing=("decoding",))
    assert (status, len(asked)) == (1, 7)
    assert capsys.readouterr().out.endswith("failed: decoding\n")


def test_some_can_be_chosen_and_unknown_ones_are_named(started, capsys):
    status, asked = started("--only", "vit")
    assert (status, len(asked)) == (0, 1) and "every benchmark ran" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        started("--only", "tpu")
    assert "found tpu" in capsys.readouterr().err


def test_tiles_are_timed_on_a_gpu_or_in_a_trial(monkeypatch):
    from attendant.errors import MachineError

    monkeypatch.setattr(tiles.torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["tiles.py"])
    with pytest.raises(MachineError, match=r"a CUDA device.*--quick"):
        tiles.main()
