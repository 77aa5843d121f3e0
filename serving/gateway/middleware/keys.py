"""API keys: a file of their hashes, names and limits; the keys themselves are shown once and stored nowhere.

A key is 256 random bits, so that one SHA-256 is as good as a slow hash: there is nothing to guess.
"""

import hmac
import json
import secrets
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from limits import parse

from attendant.errors import ArtefactError, ConfigError, OutputError, unknown_name

PREFIX = "att-"
KEY_BYTES = 32
OWNER_ALONE = 0o600


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
        if not self.name:
            raise ConfigError("a name for the key", "none", "say whose it is with --name")
        for limit in (self.requests, self.tokens):
            try:
                if limit:
                    parse(limit)
            except ValueError as error:
                raise ConfigError("a limit such as 600/minute", repr(limit), "correct it") from error


class Keys:
    """The keys of a file, which is read again when it has changed: a key that is revoked ends at once."""

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            ArtefactError: it is missing or damaged.
        """
        self._path = path
        self._read_ns = 0
        self._keys: list[Key] = []
        self._refresh()

    def find(self, secret: str) -> Key | None:
        """The key of that secret, compared in the same time whatever is alike."""
        self._refresh()
        digest = _digest(secret)
        found = [key for key in self._keys if hmac.compare_digest(key.sha256, digest)]
        return found[0] if found else None

    def _refresh(self) -> None:
        try:
            changed_ns = self._path.stat().st_mtime_ns
        except OSError as error:
            raise _unreadable(self._path, error) from error
        if changed_ns != self._read_ns:
            self._keys, self._read_ns = read_keys(self._path), changed_ns


def new_key(path: Path, name: str, requests: str = "", tokens: str = "") -> str:
    """Add a key to a file, which is made if it is missing.

    Returns:
        The key, which nobody can find out later.

    Raises:
        ConfigError: the name is taken, or a limit cannot be read.
        ArtefactError: the file is damaged.
        OutputError: it cannot be written.
    """
    keys = read_keys(path) if path.exists() else []
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
        return [Key(**value) for value in json.loads(path.read_text(encoding="utf-8"))["keys"]]
    except (OSError, ValueError, KeyError, TypeError, ConfigError) as error:
        raise _unreadable(path, error) from error


def _write(path: Path, keys: list[Key]) -> None:
    staged = path.with_name(f"{path.name}.part")
    try:
        staged.touch(OWNER_ALONE)
        staged.write_text(json.dumps({"keys": [asdict(key) for key in keys]}, indent=2) + "\n", encoding="utf-8")
        staged.replace(path)
    except OSError as error:
        raise OutputError(f"a place to write at {path}", str(error), "correct --file") from error


def _digest(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


def _unreadable(path: Path, error: Exception) -> ArtefactError:
    return ArtefactError(
        f"API keys in {path}",
        f"{type(error).__name__}: {error}",
        f"make one: `attendant keys new --file {path}`",
    )
