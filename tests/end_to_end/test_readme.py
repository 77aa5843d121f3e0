"""Every command of the README, in its order, as a reader would type it."""

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# `.ci/run` is these two; run from here they would run this test again.
RUN_BY_CI = {"make test", "make check"}
UNTIL_CTRL_C = "python -m serving up"
TIMEOUT_S = 240


def commands():
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [line.split("  #")[0].strip() for line in lines if line.strip() and not line.startswith("#")]


def environment():
    interpreter = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": f"{interpreter}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}  # noqa: TID251


def shell(command):
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )


@pytest.mark.timeout(900)
def test_every_command_of_the_readme_works():
    server = None
    try:
        for command in commands():
            if command in RUN_BY_CI:
                assert command in (ROOT / ".ci/run").read_text()
            elif command == UNTIL_CTRL_C:
                server = subprocess.Popen(
                    shlex.split(command), cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True
                )
                assert "every model answered its example" in server.stdout.readline()
            else:
                done = shell(command)
                assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
                EXPECTED.get(command.split("\n")[0], lambda output: None)(done.stdout)
    finally:
        if server is not None:
            server.send_signal(signal.SIGINT)
            assert server.wait(timeout=60) == 0


def curl_says_three(output):
    assert re.search(r'"[\d.]+:3:3"', output), output


def quickstart_shows_the_table(output):
    assert "served, gRPC" in output and "→ 1997" in output or "right" in output, output


EXPECTED = {
    "make quickstart": quickstart_shows_the_table,
    "python -m clients classify docs/examples/three.png": lambda output: _has(output, ": 3 ("),
    "echo '3rd of march 1997' | python -m clients translate": lambda output: _has(output, "1997-03-03"),
}


def _has(output, part):
    assert part in output, output


def test_the_readme_classifies_a_digit_with_curl():
    assert any(command.startswith("curl ") for command in commands())


def test_the_readme_names_both_commands_that_ci_runs():
    assert set(commands()) >= RUN_BY_CI | {"make quickstart", UNTIL_CTRL_C}
