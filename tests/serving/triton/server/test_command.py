from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from serving.triton.server.command import command_line
from serving.triton.server.installation import Installation
from serving.triton.server.settings import ServerSettings

WHEEL = Installation(
    server=Path("/wheel/bin/tritonserver"),
    backends=Path("/wheel/backends"),
    caches=Path("/wheel/caches"),
    stub=Path("/wheel/stubs/3.11/stub"),
    libraries=(),
    gpu=False,
)
SETTINGS = ServerSettings(repository=Path("/served"))
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
    "--grpc-restricted-protocol=model-repository,shared-memory,trace,logging:admin=secret",
    "--allow-http=false",
    "--grpc-address=127.0.0.1",
    "--grpc-port=8001",
    "--metrics-address=127.0.0.1",
    "--metrics-port=8002",
    "--cache-directory=/wheel/caches",
    "--cache-config=local,size=8388608",
    "--allow-gpu-metrics=false",
    "--pinned-memory-pool-byte-size=0",
    "--backend-config=python,shm-region-prefix-name=attendant_4_7_beef_",
    "--backend-config=python,shm-default-byte-size=1048576",
    "--backend-config=python,shm-growth-byte-size=1048576",
    "--exit-timeout-secs=10",
]


def _command(settings: ServerSettings = SETTINGS, installation: Installation = WHEEL) -> list[str]:
    return command_line(settings, installation, Path("/workspace"), "attendant_4_7_beef", ("one", "two"), "secret")


def test_the_default_command_line_is_the_golden_one():
    assert _command() == GOLDEN


def test_a_gpu_changes_the_gpu_flags_and_nothing_else():
    gpu_flags = {"--allow-gpu-metrics=false", "--pinned-memory-pool-byte-size=0"}
    assert set(GOLDEN) - set(_command(installation=replace(WHEEL, gpu=True))) == gpu_flags


def test_rest_listens_where_it_is_given_a_port():
    rest = _command(replace(SETTINGS, http_port=8000))
    assert "--allow-http=false" not in rest and {"--http-address=127.0.0.1", "--http-port=8000"} <= set(rest)


def test_no_cache_is_started_when_its_size_is_zero():
    assert not [flag for flag in _command(replace(SETTINGS, cache_bytes=0)) if "cache" in flag]


def test_a_verbose_server_says_so_last():
    assert _command(replace(SETTINGS, verbose=True)) == [*GOLDEN, "--log-verbose=1"]


def test_spans_go_to_the_collector_that_is_named():
    told = _command(replace(SETTINGS, otlp="http://collector:4318/"))[len(GOLDEN) :]
    assert "--trace-config=opentelemetry,url=http://collector:4318/v1/traces" in told
    assert "--trace-config=mode=opentelemetry" in told and all(one.startswith("--trace-config=") for one in told)


def test_a_complete_backends_folder_is_used_as_it_is():
    command = _command(installation=replace(WHEEL, stub=None))
    assert "--backend-directory=/wheel/backends" in command
