"""A certificate authority of a test's own, and the files that it issues."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import trustme

LONG_AGO = (datetime(2020, 1, 1, tzinfo=UTC), datetime(2021, 1, 1, tzinfo=UTC))


@dataclass(frozen=True)
class Issued:
    """A certificate and its key, as files."""

    cert: Path
    key: Path

    @property
    def listen(self) -> dict[str, Path]:
        return {"listen_cert": self.cert, "listen_key": self.key}

    @property
    def client(self) -> dict[str, Path]:
        return {"cert": self.cert, "key": self.key}


class Authority:
    """One that issues certificates into a folder; ``ca`` is its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._authority = folder, trustme.CA()
        self.ca = folder / "ca.pem"
        self._authority.cert_pem.write_to_path(str(self.ca))

    def issue(
        self,
        *names: str,
        file: str = "server",
        expired: bool = False,
        begins: datetime | None = None,
        ends: datetime | None = None,
    ) -> Issued:
        """Write a certificate that holds the names, anew where the file is there."""
        begins, ends = LONG_AGO if expired else (begins, ends)
        made = self._authority.issue_cert(*names, not_before=begins, not_after=ends)
        issued = Issued(self._folder / f"{file}.pem", self._folder / f"{file}.key")
        issued.key.write_bytes(made.private_key_pem.bytes())
        issued.cert.write_bytes(b"".join(one.bytes() for one in made.cert_chain_pems))
        return issued
