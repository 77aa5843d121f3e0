"""How a client makes sure to whom it speaks, and says who it is: the same fields for verbs, gateway and load tests."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from attendant.errors import ConfigError, UnreachableError
from attendant.records import open_file, read_file, version_of

if TYPE_CHECKING:
    import grpc

_FAULTS = (
    ("certificate has expired", "that is valid today", "has expired", "let its owner renew it"),
    (
        "not yet valid",
        "that is valid today",
        "is not valid yet",
        "compare the clocks of both machines, or let its owner renew it",
    ),
    (
        "hostname (verification|mismatch)|ip address mismatch",
        "that names it",
        "does not name it",
        "use an address that the certificate holds, or give its name with --tls-name",
    ),
    (
        "certificate.verify.failed",
        "by an authority that we trust",
        "is by an authority that we do not trust",
        "name that authority's file with --ca",
    ),
)
_PLAIN = re.compile("wrong.version.number|record.layer.failure", re.IGNORECASE)
_CLOSED = re.compile("socket closed|server disconnected|certificate.required|unknown.ca|bad.certificate", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """TLS towards a server.

    Attributes:
        tls: encrypt, and check the server's certificate; a file below says the same.
        ca: PEM file of the authorities whose certificates are trusted; the public ones if not given.
        cert: PEM file of the client's own certificate and those behind it, where the server asks for one.
        key: PEM file of its private key, without a password.
        tls_name: name that the server's certificate must hold; the address's host if not given.

    Raises:
        ConfigError: a certificate without its key, or a key without its certificate.
    """

    tls: bool = False
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    tls_name: str = ""

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            found = "a certificate alone" if self.cert else "a key alone"
            raise ConfigError("a certificate and its key", found, "give both, as --cert and --key")

    @property
    def is_on(self) -> bool:
        return self.tls or bool(self.ca or self.cert or self.tls_name)

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(path for path in (self.ca, self.cert, self.key) if path is not None)

    @property
    def version(self) -> object:
        """What differs once a file has changed."""
        return file_versions(self.files)

    def channel_credentials(self) -> grpc.ChannelCredentials | None:
        """What a gRPC channel is opened with; None for one without TLS.

        Raises:
            ConfigError: a file cannot be read, or holds something else.
        """
        if not self.is_on:
            return None
        import grpc  # late: verbs that ask no server take these flags apart too

        return grpc.ssl_channel_credentials(*self.read())

    def read(self) -> tuple[bytes | None, ...]:
        """The PEM of the authorities, of the key and of the certificate; None for one that is not given.

        Raises:
            ConfigError: a file cannot be read, or holds something else.
        """
        self.create_context()  # names a file that is missing or broken; gRPC only says that it could not connect
        try:
            return tuple(None if path is None else read_file(path) for path in (self.ca, self.key, self.cert))
        except OSError as error:  # it was replaced since
            raise ConfigError("files of certificates", _reason(error), "correct them") from error

    @property
    def channel_options(self) -> list[tuple[str, str]]:
        return [("grpc.ssl_target_name_override", self.tls_name)] if self.tls_name else []

    def create_context(self) -> ssl.SSLContext:
        """What an HTTP connection is opened with.

        Raises:
            ConfigError: a file cannot be read, or holds something else.
        """
        context = create_context(ssl.Purpose.SERVER_AUTH, self.ca)
        if self.cert is not None and self.key is not None:
            load_certificate(context, self.cert, self.key)
        return context


def file_versions(files: Iterable[Path]) -> tuple[object, ...]:
    """What differs once a file has changed; None for one that is not there."""
    return tuple(_version(path) for path in files)


def _version(path: Path) -> object:
    try:
        return version_of(path.stat())
    except OSError:
        return None


def create_context(purpose: ssl.Purpose, ca: Path | None) -> ssl.SSLContext:
    """A context that trusts the authorities in a file; public ones if there is none.

    Raises:
        ConfigError: the file cannot be read, or holds no certificate.
    """
    try:
        if ca is None:
            return ssl.create_default_context(purpose)
        with _readable(ca) as file:
            return ssl.create_default_context(purpose, cafile=file)
    except OSError as error:  # ssl.SSLError is one
        reason = _reason(error)
        raise ConfigError(
            f"certificates of authorities in PEM in {ca}", reason, "correct the file or its name"
        ) from error


def load_certificate(context: ssl.SSLContext, cert: Path, key: Path) -> None:
    """Let a context show a certificate.

    Raises:
        ConfigError: a file cannot be read, or the key is not the certificate's.
    """
    try:
        with _readable(cert) as cert_file, _readable(key) as key_file:
            # Without a password it would ask the terminal for one.
            context.load_cert_chain(cert_file, key_file, password=lambda: b"")
    except OSError as error:
        remedy = "correct the files, both in PEM, the key without a password"
        raise ConfigError(f"a certificate in {cert} with its key in {key}", _reason(error), remedy) from error


@contextmanager
def _readable(path: Path) -> Iterator[str]:
    # OpenSSL opens files by their names alone, and would wait for a pipe.
    with open_file(path) as descriptor:
        yield f"/proc/self/fd/{descriptor}"


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return f"{error.strerror}: {error.filename}" if error.filename else error.strerror or str(error)


def handshake_error(text: str, server: str) -> UnreachableError | None:
    """The error where a connection failed for its certificates; None if the text speaks of something else.

    Args:
        text: of gRPC or of Python's ssl, after a connection that failed.
        server: its address.
    """
    for pattern, expected, found, remedy in _FAULTS:
        if re.search(pattern, text, re.IGNORECASE):
            return _unreachable(
                f"a certificate of {server} {expected}", f"it {found}", remedy, f"the certificate of {server} {found}"
            )
    if _PLAIN.search(text):
        return _unreachable(
            f"TLS at {server}", "no TLS", "leave --tls and the certificates out", f"{server} does not speak TLS"
        )
    if _CLOSED.search(text):
        remedy = "it may want TLS (--tls), or a certificate of yours that it trusts (--cert and --key)"
        return _unreachable(
            f"a connection to {server}", "closed at once", remedy, f"{server} closed the connection at once"
        )
    return None


def _unreachable(expected: str, found: str, remedy: str, message: str) -> UnreachableError:
    return UnreachableError(expected, found, remedy, message=f"{message}; {remedy}")
