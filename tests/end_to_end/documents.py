"""Follow a document as a reader would: its commands in their order, in a shell at the root of the checkout."""

import os
import re
import shlex
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 1200  # of patience: what a command takes on a busy machine is no claim


def blocks(text, language):
    """The code blocks of a Markdown text in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands(text):
    """Every line of every ``sh`` block, without comments."""
    lines = "\n".join(blocks(text, "sh")).replace("\\\n", " ").splitlines()
    return [line.split("  #")[0].strip() for line in lines if line.strip() and not line.startswith("#")]


def environment():
    """With this interpreter's programs first."""
    interpreter = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": f"{interpreter}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}  # noqa: TID251


def shell(command):
    """Run a command to its end."""
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )


def succeeded(command):
    """Run a command that must succeed; what it printed."""
    done = shell(command)
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def run_python(block):
    """Run a Python block that must succeed; what it printed."""
    return succeeded(f"python - <<'PROGRAM'\n{block}PROGRAM\n")


@contextmanager
def until_ctrl_c(command):
    """A server that the document starts and leaves running; it must end well."""
    server = subprocess.Popen(shlex.split(command), cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True)
    try:
        assert "every model answered its example" in server.stdout.readline()
        yield
    finally:
        server.send_signal(signal.SIGINT)
        try:
            server.communicate(timeout=240)
        except subprocess.TimeoutExpired:
            server.kill()  # whatever it has started ends with it
            server.communicate()
            raise
    assert server.returncode == 0
