"""The tests that plant a bug and assert that a proof finds it, by their ids: none is lost unseen.

``python -m tests.planted_bugs`` writes ``planted_bugs.txt`` anew from the marker ``planted``.
"""

from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LIST = Path(__file__).with_suffix(".txt")
COLLECTED = pytest.StashKey[list[pytest.Item]]()


def listed() -> set[str]:
    """The ids that are committed."""
    return set(LIST.read_text(encoding="utf-8").splitlines())


def planted(items: Iterable[pytest.Item]) -> set[str]:
    """The ids of those that are marked."""
    return {item.nodeid for item in items if item.get_closest_marker("planted")}


class _Writer:
    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        LIST.write_text("".join(f"{one}\n" for one in sorted(planted(items))), encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(pytest.main(["--collect-only", "-q", str(ROOT / "tests")], [_Writer()]))
