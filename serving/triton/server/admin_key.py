"""The admin key of our servers: drawn at random, and shared with others by a file alone, never by a command line."""

import os
import secrets
from pathlib import Path

from attendant.errors import OutputError
from clients.admin_key import ADMIN_KEY_NAME, AdminKey, read_admin_key

RESTRICTED_CALLS = ("shared-memory", "model-repository", "trace", "logging")
"""Calls that change a server. Statistics and configurations stay open: clients read them."""
KEY_BYTES = 32


def new_admin_key() -> AdminKey:
    return AdminKey(ADMIN_KEY_NAME, secrets.token_urlsafe(KEY_BYTES))


def load_admin_key(path: Path) -> AdminKey:
    """Read the key from a file; draw one and write it there, readable by this user alone, where there is no file.

    Raises:
        InputError: the file holds something else.
        OutputError: it cannot be written.
    """
    if path.exists():
        return read_admin_key(path)
    key = new_admin_key()
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(f"{key.name}={key.secret}\n")
            os.link(beside, path)  # whole or not at all, and over nothing that is there
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        if isinstance(error, FileExistsError) and path.exists():  # another server drew its key meanwhile
            return read_admin_key(path)
        raise OutputError(f"a place to write the admin key at {path}", str(error), "choose another file") from error
    return key


def restricted_flags(key: AdminKey) -> list[str]:
    """The flags of tritonserver that keep its restricted calls for whoever knows the key."""
    value = f"{','.join(RESTRICTED_CALLS)}:{key.name}={key.secret}"
    return [f"--grpc-restricted-protocol={value}", f"--http-restricted-api={value}"]
