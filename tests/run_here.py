"""Commands in this process, which has imported what they need: ``python -m`` without the seconds of a start."""

import contextlib
import io
import runpy
import signal
import sys
from subprocess import CompletedProcess
from unittest.mock import patch


def run_here(module, *words):
    """What ``python -m module words`` prints and ends with."""
    arguments = [str(word) for word in words]
    out, errors = io.StringIO(), io.StringIO()
    status = 0
    handler = signal.getsignal(signal.SIGINT)  # the quickstart puts its own in place
    imported = sys.modules.pop(f"{module}.__main__", None)  # runpy warns of one that a test has imported
    with (
        patch.object(sys, "argv", [module, *arguments]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(errors),
    ):
        try:
            runpy.run_module(module, run_name="__main__")
        except SystemExit as ended:
            status = ended.code
        finally:
            signal.signal(signal.SIGINT, handler)
            if imported is not None:
                sys.modules[f"{module}.__main__"] = imported
    return CompletedProcess(arguments, status, out.getvalue(), errors.getvalue())
