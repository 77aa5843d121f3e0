"""Run in a process that lacks distributions: ``python -m tests.hidden_distributions``, of the standard library alone.

Standard input is a JSON object: ``hidden`` top-level modules, ``modules`` to import, ``commands`` (a program and its
words) to run. The last line of standard output is JSON as well: what failed, and how.
"""

import contextlib
import importlib
import io
import json
import runpy
import sys
from importlib.machinery import PathFinder


class Hidden:
    """Stands where Python's own finder of modules on the path stood, and finds some of them nowhere."""

    def __init__(self, modules):
        self.modules = frozenset(modules)

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in self.modules else PathFinder.find_spec(name, path, target)

    def invalidate_caches(self):
        PathFinder.invalidate_caches()


def failures(modules, commands):
    found = {}
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:
            found[module] = f"{type(error).__name__}: {error}"
    for command in commands:
        said = io.StringIO()
        sys.argv = command
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), contextlib.suppress(SystemExit):
            runpy.run_module(command[0], run_name="__main__", alter_sys=False)
        if "usage:" not in said.getvalue().lower():
            found[" ".join(command)] = said.getvalue()
    return found


if __name__ == "__main__":
    order = json.load(sys.stdin)
    sys.meta_path[sys.meta_path.index(PathFinder)] = Hidden(order["hidden"])
    sys.stdout.write(json.dumps(failures(order["modules"], order["commands"])) + "\n")
