"""The container files, as far as they can be checked where no Docker engine runs."""

import re
from pathlib import Path

import pytest
import yaml

from tests.test_layout import PACKAGES

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def triton():
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["triton"]


@pytest.fixture(scope="module")
def dockerfile():
    return (ROOT / "deploy/triton.Dockerfile").read_text()


def test_the_image_copies_every_package(dockerfile):
    assert set(re.findall(r"^COPY (\w+) \1$", dockerfile, re.MULTILINE)) == set(PACKAGES)


def test_the_repository_is_mounted_read_only_where_triton_looks_for_it(triton):
    (option,) = (word for word in triton["command"] if word.startswith("--model-repository="))
    assert triton["volumes"] == [f"./model_repository:{option.partition('=')[2]}:ro"]


def test_ports_are_published_on_loopback_only(triton):
    assert all(port.startswith("127.0.0.1:") for port in triton["ports"])


def test_the_grace_period_is_longer_than_the_drain(triton):
    (drain,) = (word.partition("=")[2] for word in triton["command"] if word.startswith("--exit-timeout-secs="))
    assert int(triton["stop_grace_period"].removesuffix("s")) > int(drain)


def test_health_is_a_canary(triton):
    assert triton["healthcheck"]["test"][1:] == ["python3", "-m", "clients", "health"]


def test_orphaned_stubs_are_reaped(triton):
    assert triton["init"] is True
