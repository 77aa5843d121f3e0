from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.train.docstrings import HELD_OUT_SHARE, collect, docstrings, shingles, size, split_modules, standard_library
from models.train.split import hash_share

pytestmark = pytest.mark.slow

HELD = next(name for name in map("held{}".format, range(1000)) if hash_share(name) < HELD_OUT_SHARE)
TRAINED = next(name for name in map("trained{}".format, range(1000)) if hash_share(name) >= HELD_OUT_SHARE)
SOURCE = '''
"""Of the module.

    In two parts.

      Indented.
"""
raise SystemExit("imported")

class Outer:
    """Of the class."""

    def method(self):
        """Of the method,

        in two parts.  """

        def inner():
            """Of a function inside."""

async def later():
    "Of a coroutine with a bad \\d escape."

def silent():
    "   "

def bare():
    return "no docstring"
'''
WORDS = " ".join(f"word{number}" for number in range(20))


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_every_kind_of_docstring_is_read_in_the_order_of_the_lines_and_nothing_is_imported(tmp_path: Path) -> None:
    write(tmp_path, {"one.py": SOURCE})
    assert list(docstrings(tmp_path / "one.py")) == [
        "Of the module.\n\nIn two parts.\n\n  Indented.",
        "Of the class.",
        "Of the method,\n\nin two parts.",
        "Of a function inside.",
        "Of a coroutine with a bad \\d escape.",
    ]


def test_texts_belong_to_top_level_modules_and_a_repeated_one_to_its_first(tmp_path: Path) -> None:
    files = {"b/deep/x.py": "'''Deep.'''", "b/__init__.py": "'''Package.'''", "a.py": "'''A.'''", "c.py": "'''A.'''"}
    assert collect(write(tmp_path, files)) == {"a": ("A.",), "b": ("Package.", "Deep.")}


@pytest.mark.parametrize("folder", ["site-packages/x", "test", "json/tests", "idlelib/idle_test"])
def test_tests_and_foreign_packages_are_left_out(tmp_path: Path, folder: str) -> None:
    assert collect(write(tmp_path, {f"{folder}/a.py": "'''A.'''", "test.py": "'''T.'''"})) == {"test": ("T.",)}


def test_a_module_is_on_its_side_whatever_other_modules_there_are() -> None:
    both = split_modules({HELD: ("One text.",), TRAINED: ("Another.",)})
    assert both == ({TRAINED: ("Another.",)}, {HELD: ("One text.",)})
    assert split_modules({HELD: ("One text.",)}) == ({}, {HELD: ("One text.",)})


@pytest.mark.parametrize(
    ("text", "is_held_out"),
    [
        ("Copied text.", False),
        ("Copied text. And more.", True),
        (WORDS, False),
        (WORDS.replace("word2 ", "changed "), False),
        (f"{WORDS} and {WORDS[::-1]}", True),
    ],
)
def test_a_text_that_training_repeats_for_the_greater_part_is_not_held_out(text: str, is_held_out: bool) -> None:
    _, held_out = split_modules({HELD: (text,), TRAINED: ("Copied text.", f"Before. {WORDS}")})
    assert (held_out == {HELD: (text,)}) is is_held_out


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=12))
def test_the_shingles_are_all_runs_of_six_words(words: list[str]) -> None:
    found = shingles("  ".join(words))
    assert {" ".join(shingle) in " ".join(words) for shingle in found} == {True}
    assert all(tuple(words[first : first + 6]) in found for first in range(len(words) - 5))


class TestStandardLibrary:
    def test_no_module_and_no_text_is_on_both_sides(self) -> None:
        training, held_out = standard_library()
        assert not training.keys() & held_out.keys()
        texts = [text for corpus in (training, held_out) for texts in corpus.values() for text in texts]
        assert len(set(texts)) == len(texts)

    def test_known_modules_are_held_out_with_four_to_fifteen_percent_of_the_bytes(self) -> None:
        training, held_out = standard_library()
        assert {"collections", "importlib", "json", "logging", "operator", "pydoc", "queue"} <= held_out.keys()
        assert size(training) > 700_000
        assert 0.04 < size(held_out) / (size(training) + size(held_out)) < 0.15

    def test_they_are_english_about_python(self) -> None:
        (first, *_), texts = standard_library()[1]["json"], standard_library()[0]["threading"]
        assert first.startswith("JSON (JavaScript Object Notation)")
        assert any("Return" in text and "thread" in text for text in texts)
