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
README = (ROOT / "README.md").read_text()
# `.ci/run` is these two; run from here they would run this test again.
RUN_BY_CI = {"make test", "make check"}
UNTIL_CTRL_C = "python -m serving up"
TIMEOUT_S = 240


def commands():
    blocks = re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
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


def python_blocks():
    return re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def has(*parts):
    def check(output):
        assert all(part in output for part in parts), output

    return check


EXPECTED = {
    "make quickstart": has("served, gRPC", "358/360 = 99.44%", "500/500 = 100.00%", "3rd of march 1997 → 1997-03-03"),
    "python -m export check build/dates-transformer": has("cached ort float32"),
    "python -m clients health": has("digits-vit (classify): ok", "dates-transformer (translate): ok"),
    "python -m clients classify docs/examples/three.png": has("docs/examples/three.png: 3 ("),
    "echo '3rd of march 1997' | python -m clients translate": has("1997-03-03"),
    "curl --fail --silent --data @docs/examples/three.json http://127.0.0.1:8000/v2/models/digits-vit/infer": has(
        ":3:3"
    ),
}


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
                EXPECTED.get(command, has())(done.stdout)
        for block in python_blocks():
            done = shell(f"python - <<'PROGRAM'\n{block}PROGRAM\n")
            assert (done.returncode, done.stdout) == (0, "2026-08-18"), done.stderr
    finally:
        if server is not None:
            server.send_signal(signal.SIGINT)
            server.communicate(timeout=60)
            assert server.returncode == 0


def test_what_is_expected_of_a_command_is_still_in_the_readme():
    assert EXPECTED.keys() <= set(commands())


def test_the_readme_names_both_commands_that_ci_runs():
    assert set(commands()) >= RUN_BY_CI | {"make quickstart", UNTIL_CTRL_C}
