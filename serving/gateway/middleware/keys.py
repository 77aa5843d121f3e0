"""API keys: a file of their hashes, names and limits; the keys themselves are shown once and stored nowhere.

A key is 256 random bits, so that one SHA-256 is as good as a slow hash: there is nothing to guess.
"""

import hmac
import json
import logging
import os
import re
import secrets
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from glob import escape
from hashlib import sha256
from pathlib import Path

from limits import parse_many

from attendant.errors import ArtefactError, ConfigError, OutputError, unknown_name
from attendant.folders import one_at_a_time
from attendant.records import read_json, record_from_json, record_to_json, version_of

PREFIX = "att-"
KEY_BYTES = 32
MOST_PERIOD_S, MOST_AMOUNT = 100 * 366 * 86_400, 10**15
"""Of a limit."""
OWNER_ALONE = 0o600
OWNER_AND_READERS = 0o640
AGAIN_S = 1.0
"""After which a file that could not be read is read again: the machine may have lacked descriptors or memory."""
LOG = logging.getLogger(__name__)
_SHA256 = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What is known of one key.

    Attributes:
        name: whose it is.
        sha256: of the key, in hexadecimal.
        requests: how many in which time, as ``600/minute``; empty for any number.
        tokens: how many, of questions and answers together, as ``1000000/day``; empty for any number.

    Raises:
        ConfigError: there is no name, or a limit cannot be read.
    """

    name: str
    sha256: str
    requests: str = ""
    tokens: str = ""

    def __post_init__(self) -> None:
        if not self.name or not self.name.isprintable():
            raise ConfigError("a printable name for the key", repr(self.name), "say whose it is with --name")
        for limit in (self.requests, self.tokens):
            try:
                items = parse_many(limit) if limit else []
                if len(items) > 1:
                    raise ValueError("several limits, of which one would be kept to")
                if any(item.get_expiry() > MOST_PERIOD_S or item.amount > MOST_AMOUNT for item in items):
                    raise ValueError("more than a clock or a counter holds")
            except ValueError as error:
                expected = "a limit such as 600/minute, of at most a hundred years"
                raise ConfigError(expected, repr(limit[:80]), "correct it") from error


class Keys:
    """The keys of a file, which is read again when it has changed: a key that is revoked ends at once.

    Where the changed file is gone or cannot be read, the keys that were read last are kept, the log says so, and it is
    tried again.

    Attributes:
        is_current: whether they are the file's.
    """

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            ArtefactError: it is missing or damaged.
        """
        self._path = path
        self._state = _state_of(path)
        self._keys = read_keys(path)
        self.is_current, self._tried_s = True, 0.0

    def find(self, secret: str) -> Key | None:
        """The key of that secret, compared in the same time whatever is alike."""
        self._refresh()
        digest = _digest(secret)
        found = [key for key in self._keys if hmac.compare_digest(key.sha256, digest)]
        return found[0] if found else None

    def _refresh(self) -> None:
        state = _state_of(self._path)
        has_changed = state != self._state
        if not has_changed and (self.is_current or time.monotonic() < self._tried_s + AGAIN_S):
            return
        self._state = state  # as it was before it was read: what changes meanwhile is read the next time
        try:
            self._keys = read_keys(self._path)
        except ArtefactError as error:
            self.is_current, self._tried_s = False, time.monotonic()
            if has_changed:
                LOG.error("the keys that were read last are kept, as the changed file cannot be read: %s", error)
        else:
            self.is_current = True


def new_key(path: Path, name: str, requests: str = "", tokens: str = "") -> str:
    """Add a key to a file, which is made if it is missing.

    Returns:
        The key, which nobody can find out later.

    Raises:
        ConfigError: the name is taken, or a limit cannot be read.
        ArtefactError: the file is damaged.
        OutputError: it cannot be written.
    """
    with one_at_a_time(path):
        keys = read_keys(path) if os.path.lexists(path) else []
        if name in [key.name for key in keys]:
            raise ConfigError("a name that no key has", repr(name), "revoke that key first, or choose another --name")
        secret = PREFIX + secrets.token_urlsafe(KEY_BYTES)
        _write(path, [*keys, Key(name=name, sha256=_digest(secret), requests=requests, tokens=tokens)])
        return secret


def revoke_key(path: Path, name: str) -> None:
    """Take a key out of a file.

    Raises:
        UnknownNameError: there is none of that name.
        ArtefactError: the file is missing or damaged.
        OutputError: it cannot be written.
    """
    with one_at_a_time(path):
        keys = read_keys(path)
        kept = [key for key in keys if key.name != name]
        if len(kept) == len(keys):
            names = [key.name for key in keys]
            raise unknown_name("key", name, names, f"the keys are {', '.join(names) or 'none'}")
        _write(path, kept)


def read_keys(path: Path) -> list[Key]:
    """Every key of a file.

    Raises:
        ArtefactError: it is missing or damaged.
    """
    try:
        value = read_json(path)
        if not isinstance(value, dict) or not isinstance(value.get("keys"), list):
            raise ValueError("no list of keys")
        limits = {"requests": "", "tokens": ""}
        keys = [record_from_json(Key, {**limits, **key} if isinstance(key, dict) else key) for key in value["keys"]]
        if any(not _SHA256.fullmatch(key.sha256) for key in keys):
            raise ValueError("a key whose sha256 is none")
        return keys
    except PermissionError as error:
        group = f"`chgrp` it to a group of that user and `chmod 640 {path}`, which later changes keep"
        raise ArtefactError(f"API keys in {path} that this user may read", "it may not", group) from error
    except (OSError, ValueError, ConfigError) as error:
        raise ArtefactError(
            f"API keys in {path}",
            f"{type(error).__name__}: {error}",
            f"make one: `attendant keys new --file {path}`",
        ) from error


def _write(path: Path, keys: list[Key]) -> None:
    # Under a name that nobody can foresee, in a file that was not there: nobody's link is followed, nobody's mode kept.
    try:
        for left_behind in path.parent.glob(f".{escape(path.name)}.*.part"):  # by a writer that was killed
            left_behind.unlink(missing_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        staged = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump({"keys": record_to_json(keys)}, file, indent=2)
                file.write("\n")
                file.flush()
                _keep_readers(file.fileno(), path)
                os.fsync(file.fileno())
            staged.replace(path)
        finally:
            staged.unlink(missing_ok=True)
        with _opened(path.parent) as folder:
            os.fsync(folder)
    except OSError as error:
        raise OutputError(f"a place to write at {path}", str(error), "correct --file") from error


def _keep_readers(descriptor: int, path: Path) -> None:
    # A group that was given the file to read, as a container's user is, keeps it; others never get it.
    os.fchmod(descriptor, OWNER_ALONE)
    with suppress(FileNotFoundError):
        before = path.lstat()
        if stat.S_ISREG(before.st_mode) and before.st_mode & stat.S_IRGRP:
            with suppress(PermissionError):  # a group that the writer is not in
                os.fchown(descriptor, -1, before.st_gid)
                os.fchmod(descriptor, OWNER_AND_READERS)


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _state_of(path: Path) -> object:
    try:
        return version_of(path.stat())
    except OSError:
        return None


def _digest(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()
