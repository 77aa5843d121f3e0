from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from clients.admin_key import AdminKey
from serving.certificates import ListenTls
from serving.triton.server.command import command_line
from serving.triton.server.installation import Installation
from serving.triton.server.life_signs import LOADERS
from serving.triton.server.settings import ServerSettings

WHEEL = Installation(
    server=Path("/wheel/bin/tritonserver"),
    backends=Path("/wheel/backends"),
    stub=Path("/wheel/stubs/3.11/stub"),
    libraries=(),
    gpu=False,
)
SETTINGS = ServerSettings(repository=Path("/served"), admin_key=AdminKey("admin-key", "s3cret"))
RESTRICTED = "shared-memory,model-repository,trace,logging:admin-key=s3cret"
GOLDEN = [
    "/wheel/bin/tritonserver",
    "--id=attendant_4_7_beef",
    "--model-repository=/served",
    "--backend-directory=/workspace/backends",
    "--disable-auto-complete-config",
    "--model-control-mode=explicit",
    "--exit-on-error=false",
    "--load-model=one",
    "--load-model=two",
    "--allow-http=false",
    "--grpc-address=127.0.0.1",
    "--grpc-port=8001",
    "--metrics-address=127.0.0.1",
    "--metrics-port=8002",
    "--allow-gpu-metrics=false",
    "--pinned-memory-pool-byte-size=0",
    "--backend-config=python,shm-region-prefix-name=attendant_4_7_cafe_",
    "--backend-config=python,shm-default-byte-size=1048576",
    "--backend-config=python,shm-growth-byte-size=1048576",
    f"--model-load-thread-count={LOADERS}",
    "--exit-timeout-secs=10",
    "--grpc-keepalive-time=10000",
    "--grpc-keepalive-timeout=10000",
    "--grpc-keepalive-permit-without-calls=true",
    "--grpc-http2-max-pings-without-data=0",
    f"--grpc-restricted-protocol={RESTRICTED}",
    f"--http-restricted-api={RESTRICTED}",
]


def _command(settings: ServerSettings = SETTINGS, installation: Installation = WHEEL) -> list[str]:
    return command_line(
        settings, installation, Path("/workspace"), "attendant_4_7_beef", "attendant_4_7_cafe", ("one", "two")
    )


def test_the_default_command_line_is_the_golden_one():
    assert _command() == GOLDEN


def test_a_gpu_changes_the_gpu_flags_and_nothing_else():
    gpu_flags = {"--allow-gpu-metrics=false", "--pinned-memory-pool-byte-size=0"}
    assert set(GOLDEN) - set(_command(installation=replace(WHEEL, gpu=True))) == gpu_flags


def test_rest_listens_where_it_is_given_a_port():
    rest = _command(replace(SETTINGS, http_port=8000))
    assert "--allow-http=false" not in rest and {"--http-address=127.0.0.1", "--http-port=8000"} <= set(rest)


def test_a_verbose_server_says_so_last():
    assert _command(replace(SETTINGS, verbose=True)) == [*GOLDEN, "--log-verbose=1"]


def test_spans_go_to_the_collector_that_is_named():
    told = _command(replace(SETTINGS, otlp="http://collector:4318/"))[len(GOLDEN) :]
    assert "--trace-config=opentelemetry,url=http://collector:4318/v1/traces" in told
    assert "--trace-config=mode=opentelemetry" in told and all(one.startswith("--trace-config=") for one in told)


def test_a_complete_backends_folder_is_used_as_it_is():
    command = _command(installation=replace(WHEEL, stub=None))
    assert "--backend-directory=/wheel/backends" in command


TLS = ListenTls(listen_cert=Path("/c/server.pem"), listen_key=Path("/c/server.key"))


def test_tls_is_for_grpc_and_leaves_rest_which_has_none_to_this_machine():
    command = _command(replace(SETTINGS, listen=TLS, address="0.0.0.0", http_port=8000))
    assert {"--grpc-use-ssl=true", "--grpc-server-cert=/c/server.pem", "--grpc-server-key=/c/server.key"} < set(command)
    assert {"--http-address=127.0.0.1", "--grpc-address=0.0.0.0", "--metrics-address=0.0.0.0"} < set(command)


def test_an_authority_of_clients_makes_tls_mutual():
    command = _command(replace(SETTINGS, listen=replace(TLS, listen_ca=Path("/c/clients.pem"))))
    assert {"--grpc-use-ssl-mutual=true", "--grpc-root-cert=/c/clients.pem"} < set(command)
    assert "--grpc-use-ssl=true" not in command  # 2.51 lets the one cancel the other


def test_two_servers_have_two_keys_and_no_page_or_log_shows_one():
    first, second = (ServerSettings(repository=Path("/served")) for _ in range(2))
    assert first.admin_key.secret != second.admin_key.secret and len(first.admin_key.secret) >= 32
    assert first.admin_key.secret not in repr(first)
