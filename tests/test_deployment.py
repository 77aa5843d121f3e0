"""The container files, as far as they can be checked where no Docker engine runs."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from serving.triton.repository.layout import write_repository
from serving.triton.repository.pbtxt import config_from_pbtxt
from tests.conftest import DATES, DIGITS
from tests.nvidia.engines import with_engines
from tests.test_command_lines import FROZEN
from tests.test_layout import PACKAGES

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def services():
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]


@pytest.fixture(scope="module", params=["triton", "triton-gpu"])
def triton(request, services):
    return services[request.param]


@pytest.fixture(scope="module")
def dockerfile():
    return (ROOT / "deploy/triton.Dockerfile").read_text()


def test_the_image_copies_every_package(dockerfile):
    assert set(re.findall(r"^COPY (\w+) \1$", dockerfile, re.MULTILINE)) == set(PACKAGES)


def test_the_repository_is_mounted_read_only_where_triton_looks_for_it(triton):
    (place,) = re.findall(r"--model-repository=(\S+)", " ".join(triton["command"]))
    (volume,) = triton["volumes"]
    target, mode = volume.split(":")[1:]
    assert place.startswith(target) and mode == "ro"


def test_ports_are_published_on_loopback_only(triton):
    assert all(port.startswith("127.0.0.1:") for port in triton["ports"])


def test_the_grace_period_is_longer_than_the_drain(triton):
    (drain,) = re.findall(r"--exit-timeout-secs=(\d+)", triton["environment"]["FLAGS"])
    assert "$$FLAGS" in triton["command"][-1]
    assert int(triton["stop_grace_period"].removesuffix("s")) > int(drain)


def test_each_start_draws_a_key_for_the_calls_that_change_the_server(triton, tmp_path):
    server = tmp_path / "tritonserver"
    server.write_text('#!/bin/sh\necho "$@"\n')
    server.chmod(0o755)
    script = triton["command"][-1].replace("$$", "$").replace("attendant engines verify gpu/model_repository", "")
    given = {"PATH": f"{tmp_path}:/usr/bin:/bin", "RESTRICTED": triton["environment"]["RESTRICTED"], "FLAGS": "--a=b"}
    run = [subprocess.run(["sh", "-ec", script], env=given, capture_output=True, text=True) for _ in range(2)]
    assert run[0].returncode == 0, run[0].stderr
    key = r"shared-memory,model-repository,trace,logging:admin-key=([A-Za-z0-9]{32,})"
    keys = [re.findall(key, one.stdout) for one in run]
    assert len(keys[0]) == len(keys[1]) == 2 and len({*keys[0], *keys[1]}) == 2


def test_health_is_a_canary(triton):
    assert triton["healthcheck"]["test"][1:] == ["attendant", "health"]


def test_orphaned_stubs_are_reaped(triton):
    assert triton["init"] is True


def test_engines_are_built_in_the_image_that_serves_them_and_on_its_gpu(services):
    builder, server = services["engines"], services["triton-gpu"]
    assert builder["build"] == server["build"]
    (device,) = builder["deploy"]["resources"]["reservations"]["devices"]
    assert builder["deploy"] == server["deploy"] and device["capabilities"] == ["gpu"]
    assert "attendant export tensorrt" in builder["command"][-1]
    (place,) = re.findall(r"attendant repository .* --out (\S+)", builder["command"][-1])
    assert f"--model-repository=/attendant/{place}" in server["command"][-1]


def test_a_server_with_a_gpu_starts_only_on_engines_that_it_can_run(services):
    first, *_, last = services["triton-gpu"]["command"][-1].replace("\\\n", "").strip().splitlines()
    assert first == "attendant engines verify gpu/model_repository" and last.startswith("exec tritonserver")
    assert services["triton-gpu"]["command"][:2] == ["sh", "-ec"]


def test_the_release_of_triton_holds_tensorrt_11_as_the_documentation_says(services, dockerfile):
    """26.06 is the first: facts of the container matrix in docs/guides/tensorrt.md."""
    arguments = services["triton-gpu"]["build"]["args"]
    release, tensorrt = arguments["TRITON"], arguments["TENSORRT"]
    assert release >= "26.06" and tensorrt == "11"
    assert f"ARG TRITON={release}\n" in dockerfile and f"ARG TENSORRT={tensorrt}\n" in dockerfile
    matrix = (ROOT / "docs" / "guides" / "tensorrt.md").read_text()
    (row,) = re.findall(rf"^\| \*\*{release}\*\* \(pinned\) \| .*\|$", matrix, re.MULTILINE)
    assert row.split("|")[3].strip().startswith(f"{tensorrt}.")


def test_an_image_with_another_tensorrt_is_not_built(dockerfile):
    assert 'case "$version" in "${TENSORRT}".*)' in dockerfile and "exit 1" in dockerfile


def test_every_service_is_the_light_image_unless_torch_is_asked_for(services, dockerfile):
    built = [service["build"] for service in services.values() if "build" in service]
    tritons = [build for build in built if "triton" in build["dockerfile"]]
    assert len(tritons) == 3 and {build["target"] for build in tritons} == {"${TARGET:-light}"}
    assert re.findall(r"^FROM (\S+) AS (\w+)$", dockerfile, re.MULTILINE)[1:] == [("light", "torch")]
    (light, torch) = dockerfile.split("FROM light AS torch")
    assert not re.search(r"pip install.* torch\b", light)
    pinned = re.search(r"pip install .* torch==(\S+)", torch)[1]
    assert f'"torch=={pinned}"' in (ROOT / "pyproject.toml").read_text()


def test_engines_are_built_of_artefacts_with_graphs_with_the_flags_that_are_asked(services, tmp_path):
    script = services["engines"]["command"][-1].replace("$$", "$")
    for name, file in (("vit", "model.onnx"), ("llama", "weights.safetensors")):
        (tmp_path / "artefacts" / name).mkdir(parents=True)
        (tmp_path / "artefacts" / name / file).touch()
    (tmp_path / "attendant").write_text('#!/bin/sh\necho "$@" >> asked\n')
    (tmp_path / "attendant").chmod(0o755)
    given = {"PATH": f"{tmp_path}:/usr/bin:/bin", "ENGINE_FLAGS": "--attention plugin"}
    subprocess.run([*services["engines"]["command"][:2], script], cwd=tmp_path, env=given, check=True)
    assert (tmp_path / "asked").read_text().splitlines() == [
        "export tensorrt artefacts/vit/ --attention plugin",
        "repository artefacts/llama/ artefacts/vit/ --out gpu/model_repository",
    ]
    assert services["engines"]["environment"]["ENGINE_FLAGS"] == "${ENGINE_FLAGS:-}"


def test_engines_that_cannot_be_built_are_named_and_all_others_are_laid_out(services, tmp_path):
    script = services["engines"]["command"][-1].replace("$$", "$")
    for name in ("dates", "large one", "vit"):
        (tmp_path / "artefacts" / name).mkdir(parents=True)
        (tmp_path / "artefacts" / name / "model.onnx").touch()
    (tmp_path / "attendant").write_text('#!/bin/sh\necho "$@" >> asked\ncase "$*" in *tensorrt*large*) exit 1;; esac\n')
    (tmp_path / "attendant").chmod(0o755)
    given = {"PATH": f"{tmp_path}:/usr/bin:/bin", "ENGINE_FLAGS": ""}
    shell = [*services["engines"]["command"][:2], script]
    ended = subprocess.run(shell, cwd=tmp_path, env=given, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (1, "no engines, and not laid out: artefacts/large one/; see above\n")
    asked = (tmp_path / "asked").read_text().splitlines()
    assert len(asked) == 4 and asked[-1] == "repository artefacts/dates/ artefacts/vit/ --out gpu/model_repository"


@pytest.mark.parametrize(
    ("published", "status", "installed"),
    [("11.4.0", 0, "11.4.0.*"), ("11.4", 0, "11.4.*"), ("11.3", 1, "")],
)
def test_the_image_takes_the_bindings_of_its_library_or_of_the_same_minor_version(
    dockerfile, tmp_path, published, status, installed
):
    script = dockerfile.split("ARG TENSORRT=11\nRUN ")[1].split("\n\nFROM")[0].replace("\\\n", "")
    for name, does in (
        ("python3", "echo 11.4.0"),
        ("pip", f'case "$*" in *"=={published}.*") echo "$4" > installed;; *) exit 1;; esac'),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    given = {"PATH": f"{tmp_path}:/usr/bin:/bin", "TENSORRT": "11"}
    ended = subprocess.run(["sh", "-c", script], cwd=tmp_path, env=given, capture_output=True, text=True)
    assert ended.returncode == status, ended
    if installed:
        assert (tmp_path / "installed").read_text() == f"tensorrt-cu13-bindings=={installed}\n"
    else:
        assert "choose an image, by TRITON" in ended.stderr


def test_what_those_commands_lay_out_has_encoders_on_the_tensorrt_backend_and_decoders_on_the_python_backend(
    digits_artefact, dates_artefact, tmp_path
):
    with_engines(digits_artefact, tmp_path / DIGITS)
    with_engines(dates_artefact, tmp_path / DATES)
    write_repository([tmp_path / DIGITS, tmp_path / DATES], tmp_path / "repository")
    found = {
        name: config_from_pbtxt((tmp_path / "repository" / name / "config.pbtxt").read_text()).backend
        for name in (DIGITS, DATES)
    }
    assert found == {DIGITS: "tensorrt", DATES: "python"}


def test_the_bindings_are_of_the_version_that_the_images_library_says(dockerfile):
    assert "tensorrt_version()" in dockerfile and '"tensorrt-cu13-bindings==${version}.*"' in dockerfile


def test_every_command_of_the_containers_is_a_verb(services):
    lines = " ".join(re.sub(r"[\[\]',]", "", str(service.get("command"))) for service in services.values())
    asked = re.findall(r"attendant (export \w+|engines \w+|[a-z]+)", lines)
    assert set(asked) <= set(FROZEN) and len(asked) >= 3


@pytest.fixture
def gateway(services):
    return services["gateway"]


def test_the_gateways_command_has_flags_that_there_are_and_its_image_every_package(gateway):
    assert {word for word in gateway["command"] if word.startswith("--")} < FROZEN["gateway"]
    copied = re.findall(r"^COPY (\w+) \1$", (ROOT / gateway["build"]["dockerfile"]).read_text(), re.MULTILINE)
    assert set(copied) == set(PACKAGES)


def test_the_gateway_is_published_on_loopback_and_may_finish_what_is_open(gateway):
    assert gateway["ports"] == ["127.0.0.1:8080:8080"] and "readyz" in gateway["healthcheck"]["test"][-1]
    assert int(gateway["stop_grace_period"].removesuffix("s")) > 30, "the default of --drain-timeout-s"


def test_envoy_balances_by_load_ejects_outliers_and_passes_no_deadline_on():
    envoy = yaml.safe_load((ROOT / "deploy/envoy.yaml").read_text())["static_resources"]
    (cluster,) = envoy["clusters"]
    assert cluster["lb_policy"] == "LEAST_REQUEST" and cluster["outlier_detection"]["consecutive_gateway_failure"] == 1
    manager = envoy["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    (route,) = manager["route_config"]["virtual_hosts"][0]["routes"]
    assert route["request_headers_to_remove"] == ["grpc-timeout"] and route["route"]["cluster"] == cluster["name"]


def test_prometheus_asks_the_services_at_their_ports_and_grafana_asks_prometheus(services):
    config = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
    asked = [target for job in config["scrape_configs"] for one in job["static_configs"] for target in one["targets"]]
    (source,) = yaml.safe_load((ROOT / "deploy/grafana/datasource.yml").read_text())["datasources"]
    for target in (*asked, source["url"].removeprefix("http://")):
        name, port = target.split(":")
        assert any(published.endswith(f":{port}") for published in services[name]["ports"]), target


def test_what_watches_is_published_on_loopback_and_reads_files_that_are_there(services):
    for name in ("prometheus", "grafana"):
        service = services[name]
        assert service["profiles"] == ["monitoring"] and ":" in service["image"]
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        for volume in service["volumes"]:
            source, _, mode = volume.partition(":")
            assert not source.startswith("./") or ((ROOT / source).exists() and mode.endswith(":ro")), volume
    (provider,) = yaml.safe_load((ROOT / "deploy/grafana/dashboards.yml").read_text())["providers"]
    assert any(f":{provider['options']['path']}/" in volume for volume in services["grafana"]["volumes"])
