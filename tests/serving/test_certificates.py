"""Certificates from files: what is refused before a server starts, and what a renewal changes."""

from __future__ import annotations

import os
import re
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from attendant.errors import ConfigError
from clients.tls import Tls
from serving import certificates
from serving.certificates import ListenTls, OwnTls, ReloadedContext
from tests.authority import Authority

KEYS = {
    "P-256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "P-384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "RSA": lambda: rsa.generate_private_key(65537, 2048),
    "P-521": lambda: ec.generate_private_key(ec.SECP521R1()),
    "Ed25519": ed25519.Ed25519PrivateKey.generate,
}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ours")


@contextmanager
def _listening(context: ssl.SSLContext) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                try:
                    with context.wrap_socket(connection, server_side=True) as secured:
                        while data := secured.recv(64):
                            secured.sendall(data)
                except OSError:
                    connection.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
    thread.join(10)


def _serial(port: int, tls: Tls) -> str:
    context = tls.create_context()
    with (
        socket.create_connection(("127.0.0.1", port), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secured,
    ):
        secured.sendall(b"echo")
        assert secured.recv(64) == b"echo"
        shown = secured.getpeercert()
        assert shown is not None
        return str(shown["serialNumber"])


def test_a_client_of_our_servers_goes_by_what_the_last_one_was_started_with(authority: Authority, tmp_path: Path):
    listen = ListenTls(**authority.issue("a.example").listen, listen_ca=authority.ca)
    own, key = OwnTls(tls=True), authority.issue("a.example").key.read_bytes()
    for name in ("first", "again", "second"):
        (tmp_path / name).mkdir()
    kept = own.keep(listen, tmp_path / "first")
    now, a = own.version, [("grpc.ssl_target_name_override", "a.example")]
    authority.issue("b.example")
    assert (own.version, own.channel_options, own.read()[1]) == (now, a, key)
    assert [path.read_bytes() for path in kept.files][1:] == [key, authority.ca.read_bytes()]
    assert {oct(path.stat().st_mode) for path in kept.files} == {"0o100600"}
    assert key.decode() not in repr(own)
    own.keep(kept, tmp_path / "again")
    assert own.version == now, "a server that shows the same needs no new connection"
    own.keep(listen, tmp_path / "second")
    assert own.version != now and own.channel_options == [("grpc.ssl_target_name_override", "b.example")]


@pytest.mark.planted
@pytest.mark.parametrize("fault", ["absent", "the key of another"])
def test_half_a_renewal_is_nothing_that_a_server_is_started_with(authority: Authority, tmp_path: Path, fault: str):
    own, listen = OwnTls(tls=True), ListenTls(**(issued := authority.issue("a.example")).listen)
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    own.keep(listen, tmp_path / "first")
    now = own.version
    issued.key.unlink()
    if fault == "the key of another":
        issued.key.write_bytes(authority.issue("a.example", file="other").key.read_bytes())
    with pytest.raises(ConfigError, match=re.escape(str(issued.key))):
        own.keep(listen, tmp_path / "second")
    assert own.version == now


def test_without_tls_nothing_is_copied(tmp_path: Path):
    own = OwnTls()
    assert own.keep(ListenTls(), tmp_path) == ListenTls() and not list(tmp_path.iterdir())
    assert (own.channel_credentials(), own.channel_options) == (None, [])


def test_a_renewed_certificate_is_shown_to_the_next_client(authority: Authority):
    context = ReloadedContext(ListenTls(**authority.issue("127.0.0.1").listen)).context
    with _listening(context) as port:
        tls = Tls(ca=authority.ca)
        first = _serial(port, tls)
        assert _serial(port, tls) == first
        authority.issue("127.0.0.1")
        second = _serial(port, tls)
        assert second != first
        assert _serial(port, tls) == second


@pytest.mark.planted
def test_one_that_is_not_valid_yet_is_shown_once_it_is(authority: Authority, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(certificates, "AGAIN_S", 0.2)
    context = ReloadedContext(ListenTls(**authority.issue("127.0.0.1").listen)).context
    with _listening(context) as port:
        tls = Tls(ca=authority.ca)
        first = _serial(port, tls)
        authority.issue("127.0.0.1", begins=datetime.now(UTC) + timedelta(seconds=4))
        assert _serial(port, tls) == first
        ends_s = time.monotonic() + 60
        while _serial(port, tls) == first:
            assert time.monotonic() < ends_s
            time.sleep(0.1)


@pytest.mark.planted
@pytest.mark.parametrize("fault", ["cut", "absent", "a pipe", "the key of another"])
def test_half_a_renewal_leaves_the_old_certificate_in_force_until_it_is_whole(
    authority: Authority, fault: str, caplog: pytest.LogCaptureFixture
):
    issued = authority.issue("127.0.0.1")
    context = ReloadedContext(ListenTls(**issued.listen)).context
    with _listening(context) as port:
        tls = Tls(ca=authority.ca)
        first = _serial(port, tls)
        if fault in ("absent", "a pipe"):
            issued.cert.unlink()
            if fault == "a pipe":
                os.mkfifo(issued.cert)
        else:
            other = authority.issue("127.0.0.1", file="other")
            issued.cert.write_bytes(other.cert.read_bytes()[: 200 if fault == "cut" else None])
        with caplog.at_level("WARNING"):
            assert [_serial(port, tls) for _ in range(3)] == [first] * 3
        assert len(caplog.messages) == 1 and str(issued.cert) in caplog.messages[0]
        issued.cert.unlink(missing_ok=True)
        authority.issue("127.0.0.1")
        assert _serial(port, tls) != first


def test_a_renewed_authority_of_clients_decides_who_comes_in(authority: Authority, tmp_path: Path):
    other = Authority(tmp_path / "theirs")
    trusted = tmp_path / "clients.pem"
    trusted.write_bytes(authority.ca.read_bytes())
    listen = ListenTls(**authority.issue("127.0.0.1").listen, listen_ca=trusted)
    old, new = (Tls(ca=authority.ca, **one.issue("c", file="client").client) for one in (authority, other))
    with _listening(ReloadedContext(listen).context) as port:
        _serial(port, old)
        with pytest.raises(OSError, match=r"alert|reset|EOF"):
            _serial(port, new)
        trusted.write_bytes(other.ca.read_bytes())
        _serial(port, new)
        with pytest.raises(OSError, match=r"alert|reset|EOF"):
            _serial(port, old)


@pytest.mark.planted
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_no_session_outlives_the_authority_of_its_client(authority: Authority, tmp_path: Path, version: ssl.TLSVersion):
    other = Authority(tmp_path / "theirs")
    trusted = tmp_path / "clients.pem"
    trusted.write_bytes(authority.ca.read_bytes())
    listen = ListenTls(**authority.issue("127.0.0.1").listen, listen_ca=trusted)
    context = Tls(ca=authority.ca, **authority.issue("c", file="client").client).create_context()
    context.maximum_version = version

    def resume(port: int, session: ssl.SSLSession | None) -> ssl.SSLSession | None:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=30) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as secured,
        ):
            secured.sendall(b"echo")
            assert secured.recv(64) == b"echo"
            return secured.session

    with _listening(ReloadedContext(listen).context) as port:
        try:
            session = resume(port, None)
        except OSError:
            assert version is ssl.TLSVersion.TLSv1_2
            return
        trusted.write_bytes(other.ca.read_bytes())
        with pytest.raises(OSError, match=r"alert|reset|EOF"):
            resume(port, session)


@pytest.mark.planted
@pytest.mark.parametrize(
    ("names", "known"),
    [
        (["triton.example.org"], "triton.example.org"),
        (["*.example.org"], "attendant.example.org"),
        (["127.0.0.1"], "127.0.0.1"),
        (["::1"], "::1"),
        (["::1", "127.0.0.1", "*.example.org"], "127.0.0.1"),
        (["someone@example.org", "*.example.org", "localhost"], "localhost"),
        (["::1", "*.local"], "::1"),
    ],
)
def test_our_own_checks_know_a_server_by_a_name_that_its_certificate_holds(
    authority: Authority, tmp_path: Path, names: list[str], known: str
):
    listen = ListenTls(**authority.issue(*names).listen)
    assert listen.own_client().tls_name == known
    credentials = grpc.ssl_server_credentials([(listen.files[1].read_bytes(), listen.files[0].read_bytes())])
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    own = OwnTls(tls=True)
    own.keep(listen, tmp_path)
    with grpc.secure_channel(f"127.0.0.1:{port}", own.channel_credentials(), own.channel_options) as channel:
        grpc.channel_ready_future(channel).result(60)
    server.stop(None).wait()


def _write_certificate(
    folder: Path, *names: x509.GeneralName, key: str = "P-256", usage: x509.KeyUsage | None = None
) -> ListenTls:
    private, now = KEYS[key](), datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "triton")])
    made = (
        x509.CertificateBuilder(subject, subject, private.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
    )
    if usage is not None:
        made = made.add_extension(usage, critical=True)
    signed = made.sign(private, None if key == "Ed25519" else hashes.SHA256())
    listen = ListenTls(listen_cert=folder / "server.pem", listen_key=folder / "server.key")
    listen.files[0].write_bytes(signed.public_bytes(Encoding.PEM))
    listen.files[1].write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return listen


WRAPS_KEYS_ALONE = x509.KeyUsage(False, False, True, False, False, False, False, False, False)


@pytest.mark.parametrize("key", ["P-256", "P-384", "RSA"])
def test_a_server_of_grpc_shows_what_its_own_client_accepts(tmp_path: Path, key: str):
    listen = _write_certificate(tmp_path, x509.DNSName("localhost"), key=key)
    assert listen.own_grpc_client() == listen.own_client()


@pytest.mark.planted
@pytest.mark.parametrize("name", [".example.org", "localhost:8001"])
def test_a_name_that_grpc_does_not_match_is_passed_over(tmp_path: Path, name: str):
    names = x509.DNSName(name), x509.IPAddress(ip_address("127.0.0.1"))
    assert _write_certificate(tmp_path, *names).own_grpc_client().tls_name == "127.0.0.1"


@pytest.mark.planted
@pytest.mark.parametrize("kind", ["P-521", "Ed25519", "a key that wraps keys alone", "a mark of byte order"])
def test_what_python_takes_and_grpc_does_not_is_refused_before_a_server_starts(tmp_path: Path, kind: str):
    usage = WRAPS_KEYS_ALONE if "wraps" in kind else None
    key = kind if kind in KEYS else "RSA"
    listen = _write_certificate(tmp_path, x509.DNSName("localhost"), key=key, usage=usage)
    if "mark" in kind:
        listen.files[0].write_bytes("\ufeff".encode() + listen.files[0].read_bytes())
    listen.own_client()
    own, copies = OwnTls(tls=True), tmp_path / "copies"
    copies.mkdir()
    with pytest.raises(ConfigError, match="that gRPC can show, and accepts; found one with which"):
        own.keep(listen, copies)
    assert own.known == []


@pytest.mark.planted
def test_names_of_other_kinds_in_front_are_passed_over_and_alone_they_are_refused(tmp_path: Path):
    odd = [
        x509.DirectoryName(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "triton")])),
        x509.UniformResourceIdentifier("spiffe://example.org/triton"),
        x509.RegisteredID(x509.ObjectIdentifier("1.2.3.4")),
    ]
    for name in odd:
        listen = _write_certificate(tmp_path, name, x509.DNSName("localhost"))
        assert listen.own_client().tls_name == "localhost"
        context = ReloadedContext(listen).context
        with _listening(context) as port:
            _write_certificate(tmp_path, name, x509.IPAddress(ip_address("127.0.0.1")))
            _serial(port, Tls(ca=listen.listen_cert))
    listen = _write_certificate(tmp_path, *odd, x509.DNSName("*.local"))
    with pytest.raises(ConfigError, match="a DNS name or an address"):
        listen.own_client()


@pytest.mark.planted
def test_a_renewal_that_is_taken_back_is(authority: Authority, tmp_path: Path):
    """As by Kubernetes, whose link goes back to the files that the server began with."""
    for version in ("v1", "v2"):
        (tmp_path / version).mkdir()
        issued = authority.issue("127.0.0.1", file=version)
        issued.cert.rename(tmp_path / version / "cert")
        issued.key.rename(tmp_path / version / "key")
    link = tmp_path / "data"

    def go_to(version: str) -> None:
        (tmp_path / "next").symlink_to(version)
        (tmp_path / "next").rename(link)

    go_to("v1")
    with _listening(ReloadedContext(ListenTls(listen_cert=link / "cert", listen_key=link / "key")).context) as port:
        tls = Tls(ca=authority.ca)
        first = _serial(port, tls)
        go_to("v2")
        assert _serial(port, tls) != first
        go_to("v1")
        assert _serial(port, tls) == first


@pytest.mark.planted
def test_a_certificate_that_has_expired_is_refused_before_a_server_starts(authority: Authority):
    listen = ListenTls(**authority.issue("127.0.0.1", expired=True).listen)
    with pytest.raises(ConfigError, match="expired; renew it"):
        listen.own_client()


@pytest.mark.planted
def test_so_is_one_that_the_authority_of_clients_did_not_issue(authority: Authority, tmp_path: Path):
    listen = ListenTls(**authority.issue("127.0.0.1").listen, listen_ca=Authority(tmp_path / "theirs").ca)
    with pytest.raises(ConfigError, match="--listen-ca"):
        listen.own_client()


def test_a_part_without_its_other_part_is_refused(authority: Authority):
    issued = authority.issue("127.0.0.1")
    for given in ({"listen_cert": issued.cert}, {"listen_key": issued.key}, {"listen_ca": authority.ca}):
        with pytest.raises(ConfigError, match="give both"):
            ListenTls(**given)
    for given in ({"cert": issued.cert}, {"key": issued.key}):
        with pytest.raises(ConfigError, match="--cert and --key"):
            Tls(**given)


@pytest.mark.parametrize("fault", ["absent", "a pipe", "no certificate", "the key of another", "a password"])
def test_a_file_that_cannot_be_used_is_named(authority: Authority, fault: str):
    issued = authority.issue("127.0.0.1")
    match fault:
        case "absent":
            issued.key.unlink()
        case "a pipe":
            issued.key.unlink()
            os.mkfifo(issued.key)
        case "no certificate":
            issued.cert.write_text("certificate")
        case "the key of another":
            issued.key.write_bytes(authority.issue("127.0.0.1", file="other").key.read_bytes())
        case "a password":
            words = ["openssl", "pkey", "-in", issued.key, "-aes256", "-passout", "pass:x", "-out", f"{issued.key}.new"]
            subprocess.run(words, check=True, capture_output=True)
            Path(f"{issued.key}.new").replace(issued.key)
    for check in (ListenTls(**issued.listen).create_context, Tls(**issued.client).channel_credentials):
        with pytest.raises(ConfigError, match=r"server\.pem with its key in .*server\.key; found") as refused:
            check()
        assert "\n" not in str(refused.value)
    with pytest.raises(ConfigError, match="certificates of authorities"):
        replace(Tls(), ca=Path("absent.pem")).channel_credentials()
    os.mkfifo(pipe := issued.cert.with_name("pipe"))
    with pytest.raises(ConfigError, match="pipe is no file"):
        replace(Tls(), ca=pipe).channel_credentials()
