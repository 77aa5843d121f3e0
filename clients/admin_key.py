"""The key without which a Triton answers no call that changes it: shared memory, models, traces, its log.

Triton names the pair in ``--grpc-restricted-protocol=CALLS:NAME=SECRET`` and ``--http-restricted-api``; a client sends
the secret in a header of that name.
"""

from dataclasses import dataclass, field
from pathlib import Path

from attendant.errors import InputError
from attendant.records import read_file

ADMIN_KEY_NAME = "admin-key"


@dataclass(frozen=True, slots=True)
class AdminKey:
    """The name of a header, and the secret in it."""

    name: str
    secret: str = field(repr=False)

    @property
    def grpc_metadata(self) -> tuple[tuple[str, str], ...]:
        return ((f"triton-grpc-protocol-{self.name}", self.secret),)

    @property
    def http_headers(self) -> dict[str, str]:
        return {self.name: self.secret}


def read_admin_key(path: Path) -> AdminKey:
    """Read a file that `attendant serve --admin-key-file` wrote, or that holds ``NAME=SECRET`` of another server.

    Raises:
        InputError: the file cannot be read, or holds something else.
    """
    try:
        name, equals, secret = read_file(path).decode().strip().partition("=")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"an admin key in {path}", str(error), "correct the file's name") from error
    if not (name and equals and secret) or any(not one.isprintable() or one == " " for one in name + secret):
        raise InputError(f"NAME=SECRET in {path}", "something else", "copy the file that the server was started with")
    return AdminKey(name, secret)
