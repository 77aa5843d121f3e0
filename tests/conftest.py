"""What many tests share: quiet threads, exported artefacts and one running server, each made once."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parent.parent
DIGITS, DATES = "digits-vit", "dates-transformer"

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_translator(tmp_path_factory):
    """The preset ``transformer-tiny``, exported."""
    return _exported("transformer-tiny", tmp_path_factory)


@pytest.fixture(scope="session")
def tiny_classifier(tmp_path_factory):
    """The preset ``vit-tiny``, exported."""
    return _exported("vit-tiny", tmp_path_factory)


@pytest.fixture(scope="session")
def digits_artefact(tmp_path_factory):
    """The shipped checkpoint ``digits-vit``, exported."""
    return _exported(DIGITS, tmp_path_factory)


@pytest.fixture(scope="session")
def dates_artefact(tmp_path_factory):
    """The shipped checkpoint ``dates-transformer``, exported."""
    return _exported(DATES, tmp_path_factory)


@pytest.fixture(scope="session")
def repository(digits_artefact, dates_artefact, tmp_path_factory):
    """A Triton repository of both shipped checkpoints."""
    from serving.repository.layout import write_repository

    out = tmp_path_factory.mktemp("serving") / "model_repository"
    write_repository([digits_artefact, dates_artefact], out)
    return out


@pytest.fixture(scope="session")
def server(repository):
    """A real Triton over both shipped checkpoints; its endpoints."""
    from serving.canary import canary_check
    from serving.triton_server.ports import free_ports
    from serving.triton_server.process import TritonServer
    from serving.triton_server.settings import ServerSettings

    http, grpc, metrics = free_ports(3)
    settings = ServerSettings(repository=repository, http_port=http, grpc_port=grpc, metrics_port=metrics)
    with TritonServer(settings) as running:
        running.wait_until_ready(canary_check({DIGITS, DATES}, 10.0), 60.0)
        yield running.endpoints
        assert running.poll() is None, running.log.read_text()[-3000:]


def _exported(name, tmp_path_factory):
    from export.stage import export_onnx

    out = tmp_path_factory.mktemp("artefacts") / name
    export_onnx(name, out)
    return out
