from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from serving.triton.server.ports import free_ports
from serving.triton.server.settings import ServerSettings
from tests.serving.triton.server import sample_models


@pytest.fixture(autouse=True)
def _workspaces_in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository of two models: ``double`` doubles a vector, ``tokens`` streams numbers, ten a second."""
    root = tmp_path / "models"
    sample_models.write(root, "double", sample_models.DOUBLE_CONFIG, sample_models.DOUBLE)
    sample_models.write(root, "tokens", sample_models.TOKENS_CONFIG, sample_models.TOKENS)
    return root


@pytest.fixture
def settings(repository: Path) -> ServerSettings:
    http, grpc, metrics = free_ports(3)
    return ServerSettings(
        repository=repository, http_port=http, grpc_port=grpc, metrics_port=metrics, drain_timeout_s=2
    )
