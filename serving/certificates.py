"""The certificates that our servers show, read from files: Triton once, the gateway whenever they change."""

import logging
import math
import os
import queue
import ssl
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from attendant.errors import ConfigError
from attendant.records import read_file
from clients.tls import Tls, create_context, file_versions, load_certificate

_LOG = logging.getLogger("attendant.certificates")
AGAIN_S = 10.0
"""Until files that were refused are looked at once more, though they have not changed: a certificate becomes valid."""
ROUNDS = 4  # messages of a handshake, at most, there and back
NAMES_TRIED = 8
TRIAL_S = 10.0
"""How long gRPC may take to connect to itself: some hundredths of a second, on a machine that has any left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenTls:
    """TLS towards clients.

    Attributes:
        listen_cert: PEM file of the certificate to show, and of those behind it; no TLS if not given.
        listen_key: PEM file of its private key, without a password.
        listen_ca: PEM file of the authorities of clients; each client must then show a certificate (mutual TLS).

    Raises:
        ConfigError: a part without the others.
    """

    listen_cert: Path | None = None
    listen_key: Path | None = None
    listen_ca: Path | None = None

    def __post_init__(self) -> None:
        if (self.listen_cert is None) != (self.listen_key is None) or (self.listen_ca and not self.listen_cert):
            names = ("listen_cert", "listen_key", "listen_ca")
            given = " and ".join(f"--{name.replace('_', '-')}" for name in names if getattr(self, name))
            raise ConfigError("--listen-cert and --listen-key", f"{given} alone", "give both")

    @property
    def is_on(self) -> bool:
        return self.listen_cert is not None

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(path for path in (self.listen_cert, self.listen_key, self.listen_ca) if path is not None)

    def create_context(self) -> ssl.SSLContext:
        """What a server of ours listens with.

        Raises:
            ConfigError: a file cannot be read, or holds something else.
        """
        assert self.listen_cert is not None and self.listen_key is not None, "TLS is on"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        if self.listen_ca is not None:
            context = create_context(ssl.Purpose.CLIENT_AUTH, self.listen_ca)
            context.verify_mode = ssl.CERT_REQUIRED
            # Whoever resumes a session shows no certificate again, which may have expired, or whose authority is gone.
            # TLS 1.2 would resume by a number as well, which Python cannot switch off.
            context.minimum_version, context.num_tickets = ssl.TLSVersion.TLSv1_3, 0
        load_certificate(context, self.listen_cert, self.listen_key)
        return context

    def own_client(self) -> Tls:
        """How our own checks reach a server that listens so: they trust its very certificate, and show it too.

        Raises:
            ConfigError: no client could accept the certificate, as one that has expired; or, where clients must show
                one, the server could not accept its own.
        """
        return self._own_clients()[0] if self.is_on else Tls()

    def _own_clients(self) -> list[Tls]:
        # One for each name of the certificate, of which gRPC may match none.
        mutual = self.listen_ca is not None
        cert, key = (self.listen_cert, self.listen_key) if mutual else (None, None)
        client = Tls(tls=True, ca=self.listen_cert, cert=cert, key=key)
        context = client.create_context()
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        try:
            shown = _shake_hands(context, self.create_context())
        except ssl.SSLError as error:
            remedy = "renew it"
            if mutual:
                remedy += ", by an authority in --listen-ca and for clients too: our own checks show it"
            found = getattr(error, "verify_message", "") or error.reason or str(error)
            raise ConfigError(f"a certificate in {self.listen_cert} that clients accept", found, remedy) from error
        names = _names_for_grpc(shown.get("subjectAltName", ()))
        if not names:
            expected = f"a DNS name or an address in the certificate {self.listen_cert}"
            raise ConfigError(expected, "none", "renew it with subjectAltName")
        return [Tls(tls=True, ca=self.listen_cert, cert=cert, key=key, tls_name=name) for name in names]

    def own_grpc_client(self) -> Tls:
        """The same for a server of gRPC, which knows fewer kinds of keys, files and names than Python does.

        Raises:
            ConfigError: as :meth:`own_client`, or gRPC cannot listen so.
        """
        if not self.is_on:
            return Tls()
        for client in self._own_clients()[:NAMES_TRIED]:
            if _connects(self, client):
                return client
        expected = f"a certificate in {self.listen_cert} that gRPC can show, and accepts"
        remedy = "renew it, with a key of RSA or on P-256 or P-384 that may sign, in a plain PEM file"
        raise ConfigError(expected, "one with which it cannot connect to itself", remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTls(Tls):
    """Towards the last server of ours that was started, by what it was started with: its files may hold another since.

    Attributes:
        known: what :meth:`read` gives and the options of a channel; nothing before the first start.
    """

    known: list[tuple[tuple[bytes | None, ...], list[tuple[str, str]]]] = field(
        default_factory=list, repr=False, compare=False
    )

    def keep(self, listen: ListenTls, folder: Path) -> ListenTls:
        """Copy the files of the next server into its folder, for this user alone, and go by the copies from now on.

        Returns:
            How the server listens by the copies.

        Raises:
            ConfigError: as :meth:`ListenTls.own_grpc_client`.
            OSError: the folder cannot be written, or holds copies.
        """
        try:
            kept = ListenTls(**{name: _copy(path, folder / name) for name, path in asdict(listen).items() if path})
            client = kept.own_grpc_client()
        except (ConfigError, OSError):
            listen.own_grpc_client()  # which says it of the files themselves
            raise
        self.known[:] = [(client.read() if client.is_on else (), client.channel_options)]
        return kept

    @property
    def version(self) -> object:
        """What differs once a server was started with other certificates."""
        return tuple(self.known)

    @property
    def channel_options(self) -> list[tuple[str, str]]:
        return self.known[0][1]

    def read(self) -> tuple[bytes | None, ...]:
        """What the copies held."""
        return self.known[0][0]


class ReloadedContext:
    """A context whose certificates are those in the files, at each new connection; open ones stay as they are."""

    def __init__(self, listen: ListenTls) -> None:
        self._listen, self._read = listen, file_versions(listen.files)
        self._refused, self._refused_s = self._read, -math.inf
        self._newest = self.context = listen.create_context()
        self.context.sni_callback = self._choose  # is called for clients that name no server, too

    def _choose(self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, context: ssl.SSLContext) -> None:
        versions = file_versions(self._listen.files)
        is_new = versions != self._refused or time.monotonic() - self._refused_s > AGAIN_S
        if versions != self._read and is_new:
            try:
                replace(self._listen, listen_ca=None).own_client()  # it may be valid from tomorrow on
                newest = self._listen.create_context()
                if file_versions(self._listen.files) == versions:  # else it may not be what was looked at
                    self._newest, self._read = newest, versions
            except Exception as error:  # half of the files may be new: a later connection finds the other half
                self._refused, self._refused_s = versions, time.monotonic()
                _LOG.warning("the certificate in use stays: %s", error)
        connection.context = self._newest


def _names_for_grpc(names: Iterable[tuple[str, Any]]) -> list[str]:
    """What gRPC finds in a certificate: it reads no other kinds, and no ``*`` in front of a single label."""
    found: list[list[str]] = [[], [], []]
    for kind, name in names:
        if kind == "DNS" and "*" not in name:
            found[0].append(name)
        elif kind == "IP Address":
            with suppress(ValueError):
                found[1].append(str(ip_address(name)))
        elif kind == "DNS" and name.startswith("*.") and "." in name[2:]:
            found[2].append(name.replace("*", "attendant"))
    return [*found[0][:1], *sorted(found[1], key=lambda address: ":" in address), *found[0][1:], *found[2]]


def _connects(listen: ListenTls, client: Tls) -> bool:
    import grpc  # late: as in clients/tls.py

    credentials = client.channel_credentials()
    assert listen.listen_cert is not None and listen.listen_key is not None and credentials is not None, "TLS is on"
    pair = read_file(listen.listen_key), read_file(listen.listen_cert)
    ca = None if listen.listen_ca is None else read_file(listen.listen_ca)
    settled = queue.SimpleQueue[grpc.ChannelConnectivity]()
    with ThreadPoolExecutor(1) as pool:
        server = grpc.server(pool)
        try:
            port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair], ca, ca is not None))
            server.start()
            with grpc.secure_channel(f"127.0.0.1:{port}", credentials, client.channel_options) as channel:
                channel.subscribe(settled.put, try_to_connect=True)
                state, ends_s = grpc.ChannelConnectivity.IDLE, time.monotonic() + TRIAL_S
                while state in (grpc.ChannelConnectivity.IDLE, grpc.ChannelConnectivity.CONNECTING):
                    state = settled.get(timeout=max(0.0, ends_s - time.monotonic()))
                return state is grpc.ChannelConnectivity.READY
        except (RuntimeError, ValueError, queue.Empty):  # of a port without credentials
            return False
        finally:
            server.stop(None).wait()


def _copy(path: Path, copy: Path) -> Path:
    with os.fdopen(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        file.write(read_file(path))
    return copy


def _shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> dict[str, tuple[tuple[str, Any], ...]]:
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = (client.wrap_bio(back, there), server.wrap_bio(there, back, server_side=True))
    for _ in range(ROUNDS):
        for side in sides:
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    shown: dict[str, tuple[tuple[str, Any], ...]] = sides[0].getpeercert() or {}  # type: ignore[assignment]
    return shown
