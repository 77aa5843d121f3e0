"""The documentation strings of the running interpreter's standard library, without importing any of it.

Modules are split, not texts: every text of a held-out top-level module (``json``, with all inside it) was trained on
nowhere. What such a module shares with the others, word for word or nearly, is not held out either.
"""

from __future__ import annotations

import ast
import sysconfig
import warnings
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from models.train.split import hash_order

SKIPPED_FOLDERS = frozenset({"site-packages", "test", "tests", "idle_test"})
HELD_OUT_SHARE = 0.08
SHINGLE_WORDS = 6
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

Corpus = Mapping[str, tuple[str, ...]]  # top-level module → its texts


def library_folder() -> Path:
    """Where the running interpreter keeps its standard library."""
    return Path(sysconfig.get_path("stdlib"))


@lru_cache(maxsize=4)
def collect(folder: Path) -> Corpus:
    """The docstrings below a folder by top-level module, in the order of paths and lines; a repeated one is kept once."""
    found: dict[str, dict[str, None]] = {}
    for path in sorted(folder.rglob("*.py")):
        inside = path.relative_to(folder)
        if not SKIPPED_FOLDERS & set(inside.parts[:-1]):
            found.setdefault(inside.parts[0].removesuffix(".py"), {}).update(dict.fromkeys(docstrings(path)))
    return {module: tuple(texts) for module, texts in found.items() if texts}


def docstrings(path: Path) -> Iterator[str]:
    """The texts of a source file in the order of its lines, indentation and blank ends removed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the standard library may use escapes that its own compiler warns of
        tree = ast.parse(path.read_bytes())
    nodes = [node for node in ast.walk(tree) if isinstance(node, _DOCUMENTED)]
    for node in sorted(nodes, key=lambda node: getattr(node, "lineno", 0)):
        text = (ast.get_docstring(node) or "").strip()
        if text:
            yield text
