"""The tutorials, followed word by word: each file saved, each program run, each command typed, in their order."""

import re
import shutil
from contextlib import ExitStack

import pytest

from tests.end_to_end.documents import ROOT, blocks, commands, run_python, shell, succeeded, until_ctrl_c

FOLDER = ROOT / "docs/tutorials"
HUGGING_FACE, LOAD, ATTENTION = (
    (FOLDER / f"{name}.md").read_text() for name in ("hugging-face-model", "load-test", "attention-map")
)
ACTIVATE = ". .venv/bin/activate"  # the shell of a test has this interpreter first on its path
SERVED = "attendant serve --repository build/explained --gateway-port 8080"


def steps(text):
    """The commands of a tutorial, but for those that make the shell ready."""
    return [command for command in commands(text) if command != ACTIVATE]


def follow(listed, servers, run=succeeded):
    """Run commands in their order; those that serve go on until the test ends. What each printed."""
    shown = {}
    for command in listed:
        if command.startswith("attendant serve"):
            servers.enter_context(until_ctrl_c(command))
        else:
            shown[command] = run(command)
    return shown


def run_of_load(command):
    """A command that may find its run invalid on a busy machine, and must say so; what it printed, and its status."""
    done = shell(command)
    assert done.returncode in ((0, 1, 2) if " compare " in command else (0, 1)), done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_hugging_face_model_is_served_and_then_tested_under_load():
    shutil.rmtree(ROOT / "build/repository", ignore_errors=True)
    (ROOT / "build").mkdir(exist_ok=True)
    make_folder, compare = blocks(HUGGING_FACE, "python")
    (scenario,) = blocks(LOAD, "toml")
    run_python(make_folder)
    (ROOT / "build/gpt2.toml").write_text(scenario)
    serve, *load = steps(LOAD)
    with ExitStack() as servers:
        shown = follow(steps(HUGGING_FACE), servers)
        assert run_python(compare) == "True\n"
        assert "146,688 parameters" in shown["attendant models import build/hf-gpt2 --name gpt2 --out build/gpt2"]
        assert "cached ort float32" in shown["attendant verify build/gpt2-onnx"]
        assert "gpt2 (generate): ok" in shown["attendant health"]
        assert serve in steps(HUGGING_FACE)
        reports = follow(load, servers, run_of_load)
    assert all("Time to first token" in reports[command] for command in load if " run " in command)
    assert re.search(
        r"itl_p95<50ms +[\d.]+ [mµ]s", next(text for command, text in reports.items() if "--slo" in command)
    )
    assert "<html" in (ROOT / "build/gpt2-first.html").read_text()
    assert "<html" in (ROOT / "build/gpt2-sweep.html").read_text()


def test_a_layer_is_followed_from_the_formula_to_the_picture():
    formula, layers = blocks(ATTENTION, "python")
    assert run_python(formula + layers) == "".join(blocks(ATTENTION, "text"))
    drawn = [command for command in steps(ATTENTION) if command.startswith("attendant models")]
    by_hand = commands((FOLDER / "step-by-step.md").read_text())
    assert drawn and set(drawn) <= set(by_hand), "test_readme.py runs these two, and looks at what they print"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_attention_maps_come_from_a_server_too():
    listed = steps(ATTENTION)
    with ExitStack() as servers:
        follow(listed[listed.index(SERVED) - 2 :], servers)
    assert (ROOT / "build/three.npz").stat().st_size > 1000
    assert (ROOT / "build/layer-4.png").read_bytes().startswith(b"\x89PNG")


def test_every_tutorial_is_followed_by_a_test():
    followed = {"hugging-face-model", "load-test", "attention-map"}
    elsewhere = {"your-own-model": "test_your_own_model.py", "step-by-step": "test_readme.py"}
    assert {path.stem for path in FOLDER.glob("*.md")} == followed | elsewhere.keys()
    for name, test in elsewhere.items():
        assert f"docs/tutorials/{name}.md" in (ROOT / "tests/end_to_end" / test).read_text()


def test_every_command_within_the_readmes_text_is_one_that_is_run():
    readme = (ROOT / "README.md").read_text()
    run = [*commands(readme), *(command for path in FOLDER.glob("*.md") for command in commands(path.read_text()))]
    inline = [span for span in re.findall(r"`(attendant [^`]*)`", readme) if re.search(r" (--\w|build/)", span)]
    assert inline and [command for command in inline if command not in run] == []
