"""Models that answered their examples wrongly: each is loaded again once its files have changed, or after a while."""

import stat
import time
from contextlib import suppress
from itertools import chain, islice
from math import inf
from pathlib import Path

from attendant.records import version_of
from serving.triton.repository.entries import model_folders
from serving.triton.server.troubles import Troubles

Files = frozenset[tuple[str, object]]
MOST_FILES = 1000
"""Of a model, whose times are looked at."""


class WrongModels:
    """What is known of the models of one repository, over all servers that serve it.

    Attributes:
        repository: its folder.
    """

    def __init__(self, repository: Path) -> None:
        self.repository = repository
        self._times, self._files = Troubles(), dict[str, Files]()
        self._loaded = dict[str, Files]()

    def load(self, name: str) -> None:
        """A model is about to be loaded, from its files as they are."""
        self._files[name] = self.files_of(name)

    def note_loaded(self, name: str) -> None:
        """It is loaded, which some never are."""
        self._loaded[name] = self._files.get(name, frozenset())

    def count(self, name: str) -> None:
        """It has answered its example wrongly."""
        self._times.count(name)

    def forget(self, name: str) -> None:
        """It has answered rightly."""
        self._times.pop(name, None)

    def names(self) -> set[str]:
        """The models that no server should begin with."""
        return set(self._times)

    def changed(self) -> set[str]:
        """Those whose files are others than what was loaded last; where all are, those that never were."""
        names = set(model_folders(self.repository) if self._loaded else ())
        changed = {name for name in names if self._loaded.get(name) != self.files_of(name)}
        return changed if changed < names else changed - self._loaded.keys()

    def due_s(self, name: str) -> float:
        """When it may be loaded again, by the monotonic clock: at once where its files are others now."""
        if name not in self._times or self._files[name] != self.files_of(name):
            return -inf
        return self._times.due_s(name)

    def pause_s(self, name: str) -> float:
        """In how many seconds that is."""
        return max(0.0, self.due_s(name) - time.monotonic())

    def files_of(self, name: str) -> Files:
        """Its files as they are, each with what tells its versions apart."""
        folder, found = self.repository / name, set[tuple[str, object]]()
        with suppress(OSError):  # a folder that is removed while it is read
            for path in islice(chain(folder.glob("*"), folder.glob("*/*")), MOST_FILES):
                with suppress(OSError):  # a link to nothing, or removed meanwhile
                    state = path.stat()
                    if stat.S_ISREG(state.st_mode):
                        found.add((str(path), version_of(state)))
        return frozenset(found)
