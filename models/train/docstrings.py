"""The documentation strings of the running interpreter's standard library, read without importing any of it.

Top-level modules are split, not texts: what stands in a held-out one (``json`` with all inside it) was trained on
nowhere. A held-out text that a training text repeats, word for word or for the greater part, is dropped.
"""

import ast
import sysconfig
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from models.train.split import hash_share

SKIPPED_FOLDERS = frozenset({"site-packages", "test", "tests", "idle_test"})
HELD_OUT_SHARE = 1 / 15
SHINGLE_WORDS = 6
MOST_REPEATED = 0.5

Corpus = dict[str, tuple[str, ...]]  # top-level module → its texts
Shingle = tuple[str, ...]
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def standard_library() -> tuple[Corpus, Corpus]:
    """The running interpreter's texts to train on, and those held out."""
    return split_modules(collect(Path(sysconfig.get_path("stdlib"))))


def split_modules(corpus: Corpus) -> tuple[Corpus, Corpus]:
    """A fifteenth of the modules is held out, whichever others there are, but no text that training repeats."""
    training = {module: texts for module, texts in corpus.items() if hash_share(module) >= HELD_OUT_SHARE}
    known = {shingle for texts in training.values() for text in texts for shingle in shingles(text)}
    held_out = {
        module: kept
        for module, texts in corpus.items()
        if module not in training and (kept := tuple(text for text in texts if _is_new(text, known)))
    }
    return training, held_out


def collect(folder: Path) -> Corpus:
    """The docstrings below a folder in the order of paths and lines; a text that comes again is kept at its first."""
    module_of: dict[str, str] = {}
    for path in sorted(folder.rglob("*.py")):
        inside = path.relative_to(folder)
        if not SKIPPED_FOLDERS & set(inside.parts[:-1]):
            for text in docstrings(path):
                module_of.setdefault(text, inside.parts[0].removesuffix(".py"))
    return {
        module: tuple(text for text, home in module_of.items() if home == module)
        for module in dict.fromkeys(module_of.values())
    }


def docstrings(path: Path) -> Iterator[str]:
    """The texts of a source file in the order of its lines, without indentation and without blank ends."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library has string escapes that its own compiler warns of
        tree = ast.parse(path.read_bytes())
    nodes = [node for node in ast.walk(tree) if isinstance(node, _DOCUMENTED)]
    for node in sorted(nodes, key=lambda node: getattr(node, "lineno", 0)):
        if text := (ast.get_docstring(node) or "").strip():
            yield text


def shingles(text: str) -> set[Shingle]:
    """Every run of six words; all the words of a text that has fewer."""
    words = text.split()
    return {tuple(words[first : first + SHINGLE_WORDS]) for first in range(max(1, len(words) - SHINGLE_WORDS + 1))}


def size(corpus: Corpus) -> int:
    """How many UTF-8 bytes a corpus has."""
    return sum(len(text.encode()) for texts in corpus.values() for text in texts)


def _is_new(text: str, known: set[Shingle]) -> bool:
    own = shingles(text)
    return len(own & known) <= MOST_REPEATED * len(own)
