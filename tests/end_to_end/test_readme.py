"""Every command of the README and of its tutorial, as a reader would type it: in their order within each part."""

import re
import shutil
from contextlib import ExitStack

import pytest

from commands.quickstart.showcase import showcases
from tests.end_to_end.documents import ROOT, blocks, commands, run_python, shell, succeeded, until_ctrl_c
from tests.end_to_end.imported_models import KINDS

README = (ROOT / "README.md").read_text() + (ROOT / "docs/tutorials/step-by-step.md").read_text()
UNTIL_CTRL_C = "attendant serve --gateway-port 8080 --http-port 8000"
PARTS = {
    # A command is of the first part that knows it.
    "yours": r".*(build/hf-gpt2|build/gpt2|build/repository|\bThe house is\b).*",
    # `.ci/run` is these; run from here they would run this test again.
    "ci": r"make (check|test.*)",
    "long": r"attendant (models train|export torch|verify build/torch/|export onnx .* --precision)\b.*",
    "proofs": r"attendant (models (list|describe|explain)|verify (?!build/torch/)|compare|inspect)\b.*",
    "served": r"make quickstart|attendant export onnx \S+ --out \S+( --explain)?|(echo|curl) .*"
    r"|attendant (?!export|models|verify|compare|inspect).*",
}
# What the README has exported before it is proved; done already where the other part was quicker.
PROVED = [
    "attendant export onnx dates-transformer --out build/dates-transformer --explain",
    "attendant export onnx stdlib-lm --out build/stdlib-lm --explain",
]


def has(*parts):
    def check(output):
        assert all(part in output for part in parts), output

    return check


EXPECTED = {
    "make quickstart": has(
        "→ 3 (",
        "the first answer came after",
        "served, gRPC",
        "358/360 = 99.44%",
        "500/500 = 100.00%",
        "3rd of march 1997 → 1997-03-03",
        "359/360 = 99.72%",
        "489/500 = 97.80%",
        "build/attention.png",
        "stdlib-lm",
        "10/10 as PyTorch",
    ),
    "attendant verify build/dates-transformer": has("cached ort float32"),
    "attendant health": has(
        "digits-vit (classify): ok",
        "digits-swin (classify): ok",
        "digits-captioner (caption): ok",
        "dates-transformer (translate): ok",
        "dates-gru (translate): ok",
        "stdlib-lm (generate): ok",
    ),
    "attendant classify --model digits-swin docs/examples/three.png": has("docs/examples/three.png: 3 ("),
    "attendant models explain digits-vit docs/examples/three.png --out build/three.png": has("build/three.png: 3 ("),
    "attendant caption docs/examples/pair.png": has("docs/examples/pair.png: a three left of an eight"),
    "attendant models explain dates-gru 3rd of march 1997 --out build/alignment.png": has("1997-03-03"),
    "echo '3rd of march 1997' | attendant translate --model dates-gru": has("1997-03-03"),
    "curl --fail --silent --data @docs/examples/three.json http://127.0.0.1:8000/v2/models/digits-vit/infer": has(
        ":3:3"
    ),
    "curl --fail --silent http://127.0.0.1:8080/v1/translate --json"
    """ '{"model": "dates-gru", "input": "3rd of march 1997"}'""": has("1997-03-03"),
}


def part_of(command):
    return next((part for part, pattern in PARTS.items() if re.fullmatch(pattern, command)), None)


def commands_of(part):
    return [command for command in commands(README) if part_of(command) == part]


def works(command):
    EXPECTED.get(command, has())(succeeded(command))


def test_every_command_of_the_readme_is_in_a_part():
    assert [command for command in commands(README) if part_of(command) is None] == []
    assert [part for part in PARTS if not commands_of(part)] == []


def test_ci_runs_the_commands_that_run_this_test():
    ci = (ROOT / ".ci/run").read_text()
    assert set(commands_of("ci")) >= {"make test", "make check"}
    assert [command for command in commands_of("ci") if command not in ci] == []


@pytest.mark.timeout(1800)
def test_quickstart_and_what_is_served_after_it(exported):
    # The first model is exported by the quickstart itself; of the others it finds what other tests need as well.
    # From the last on: the other process begins with the first, for its shared servers.
    for showcase in reversed(showcases(texts=1)[1:]):
        if not (place := ROOT / "build" / showcase.name).exists():
            shutil.copytree(exported(showcase.name, explain=True), place)
    (program,) = blocks(README, "python")
    with ExitStack() as servers:
        for command in commands_of("served"):
            if command == UNTIL_CTRL_C:
                servers.enter_context(until_ctrl_c(command))
            elif command.startswith("attendant load run"):
                told = shell(command)  # on a busy machine a run is invalid, or misses the objective, and says so
                assert told.returncode in (0, 1) and "ttft_p95<200ms" in told.stdout, told.stdout + told.stderr
                assert "<html" in (ROOT / "build/load.html").read_text()
            else:
                works(command)
        assert run_python(program) == "2026-08-18"


@pytest.mark.timeout(1800)
def test_a_model_of_the_readers_own_is_served_in_three_commands():
    shutil.rmtree(ROOT / "build/repository", ignore_errors=True)
    KINDS["gpt2"].save(ROOT / "build/hf-gpt2", wide=False)
    with ExitStack() as servers:
        for command in commands_of("yours"):
            if command.startswith("attendant serve"):
                servers.enter_context(until_ctrl_c(command))
            else:
                works(command)


@pytest.mark.timeout(1800)
def test_what_is_shown_and_proved_of_models():
    for command in [*PROVED, *commands_of("proofs")]:
        works(command)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("command", commands_of("long"))
def test_what_takes_long_works_too(command):
    works(command)


def test_what_is_expected_of_a_command_is_still_in_the_readme():
    assert EXPECTED.keys() | set(PROVED) | {UNTIL_CTRL_C, "make quickstart"} <= set(commands(README))
