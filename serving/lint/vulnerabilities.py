"""The rule on a server's version: what is known to be wrong with it, by the table in vulnerabilities.toml."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from attendant.errors import UserError
from serving.lint.command import Command
from serving.lint.rule import Finding, rule

TABLE = Path(__file__).with_suffix(".toml")
_FIRST_YEAR = 18  # containers are named by year and month, servers by 2.MINOR.PATCH


@dataclass(frozen=True, slots=True, kw_only=True)
class Vulnerability:
    """Something wrong with every release before one.

    Attributes:
        names: in the list of CVEs.
        consequence: what a client can do.
        container: the first release without it, as year and month.
        server: the same, as the version of tritonserver.
        source: who says so.
    """

    names: tuple[str, ...]
    consequence: str
    container: str
    server: str
    source: str

    def affects(self, version: tuple[int, ...]) -> bool:
        return version < parse_version(self.container if version[0] >= _FIRST_YEAR else self.server)


@cache
def known_ones() -> tuple[Vulnerability, ...]:
    rows = tomllib.loads(TABLE.read_text(encoding="utf-8"))["vulnerabilities"]
    return tuple(Vulnerability(**row | {"names": tuple(row["names"])}) for row in rows)


def parse_version(text: str) -> tuple[int, ...]:
    """Read ``2.51.0``, or a container's ``24.10`` and ``24.10-py3``.

    Raises:
        UserError: it is neither.
    """
    numbers = text.partition("-")[0].split(".")
    if len(numbers) not in (2, 3) or not all(number.isascii() and number.isdigit() for number in numbers):
        raise UserError("a version of tritonserver", repr(text), "give it as 2.51.0, or its container's as 24.10")
    return tuple(map(int, numbers))


@rule(
    severity="error",
    statement="the server is no older than the fixes of its known vulnerabilities",
    consequence="see each CVE; `serving/lint/vulnerabilities.toml` says what a client can do, and who says so",
    source="NVIDIA's security bulletins 5687 and 5828, as far as the table says",
    remedy="use container 26.03 (server 2.67.0) or newer; until then let no other machine reach a port, and keep "
    "shared memory for whoever knows a key",
)
def known_vulnerabilities(command: Command) -> Iterator[Finding]:
    if not command.version:
        return
    version = parse_version(command.version)
    for one in known_ones():
        if one.affects(version):
            names = ", ".join(one.names)
            yield Finding(where=f"tritonserver {command.version}", found=f"{names}: {one.consequence}")
