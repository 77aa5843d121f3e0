"""Every command of the README, in its order, as a reader would type it."""

from contextlib import ExitStack

import pytest

from tests.end_to_end.documents import ROOT, blocks, commands, run_python, shell, succeeded, until_ctrl_c

README = (ROOT / "README.md").read_text()
# `.ci/run` is these two; run from here they would run this test again.
RUN_BY_CI = {"make test", "make check"}
UNTIL_CTRL_C = "python -m serving up --gateway-port 8080"


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
    "python -m export check build/dates-transformer": has("cached ort float32"),
    "python -m clients health": has(
        "digits-vit (classify): ok",
        "digits-swin (classify): ok",
        "digits-captioner (caption): ok",
        "dates-transformer (translate): ok",
        "dates-gru (translate): ok",
        "stdlib-lm (generate): ok",
    ),
    "python -m clients classify --model digits-swin docs/examples/three.png": has("docs/examples/three.png: 3 ("),
    "python -m models explain digits-vit docs/examples/three.png --out build/three.png": has("build/three.png: 3 ("),
    "python -m clients caption docs/examples/pair.png": has("docs/examples/pair.png: a three left of an eight"),
    "python -m models explain dates-gru 3rd of march 1997 --out build/alignment.png": has("1997-03-03"),
    "echo '3rd of march 1997' | python -m clients translate --model dates-gru": has("1997-03-03"),
    "curl --fail --silent --data @docs/examples/three.json http://127.0.0.1:8000/v2/models/digits-vit/infer": has(
        ":3:3"
    ),
    "curl --fail --silent http://127.0.0.1:8080/v1/translate --json"
    """ '{"model": "dates-gru", "input": "3rd of march 1997"}'""": has("1997-03-03"),
}


@pytest.mark.timeout(900)
def test_every_command_of_the_readme_works():
    with ExitStack() as servers:
        for command in commands(README):
            if command in RUN_BY_CI:
                assert command in (ROOT / ".ci/run").read_text()
            elif command == UNTIL_CTRL_C:
                servers.enter_context(until_ctrl_c(command))
            elif command.startswith("python -m clients load run"):
                told = shell(command)  # on a busy machine a run is invalid, or misses the objective, and says so
                assert told.returncode in (0, 1) and "ttft_p95<200ms" in told.stdout, told.stdout + told.stderr
                assert "<html" in (ROOT / "build/load.html").read_text()
            else:
                EXPECTED.get(command, has())(succeeded(command))
        assert [run_python(block) for block in blocks(README, "python")] == ["2026-08-18"]


def test_what_is_expected_of_a_command_is_still_in_the_readme():
    assert EXPECTED.keys() <= set(commands(README))


def test_the_readme_names_both_commands_that_ci_runs():
    assert set(commands(README)) >= RUN_BY_CI | {"make quickstart", UNTIL_CTRL_C}
