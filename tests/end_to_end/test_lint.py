"""What the linter finds, the real server does not: it loads every model that breaks a rule, and says nothing."""

import re
import tempfile

import pytest

from serving.lint.registry import MODEL_RULES
from serving.triton.server.ports import free_ports
from serving.triton.server.process import TritonServer
from serving.triton.server.settings import ServerSettings
from tests.serving.lint.broken_models import CASES
from tests.serving.lint.test_rules import write
from tests.serving.triton.server.sample_models import DOUBLE

# Without model.py the Python backend never ends loading; a decoupled model of one answer needs a backend of C++.
UNTRIED = {"model-file", "decoupled-backend"}


def write_in_python(model, text, files):
    """The configuration, with the Python backend in the place of others."""
    files = [name.replace("model.onnx", "model.py") for name in files]
    write(model, text.replace('"onnxruntime"', '"python"'), files)
    for path in model.glob("*/model.py"):
        path.write_text(DOUBLE)


@pytest.mark.slow
def test_the_server_loads_what_the_linter_finds(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    models = tmp_path / "models"
    names = {rule.name for rule in MODEL_RULES} - UNTRIED
    for name in names:
        case = CASES[name]
        files = case.files if case.broken_files is None else case.broken_files
        write_in_python(models / name, case.broken_text.replace('name: "m"', f'name: "{name}"'), files)
    http, grpc, metrics = free_ports(3)
    settings = ServerSettings(repository=models, http_port=http, grpc_port=grpc, metrics_port=metrics)
    with TritonServer(settings) as server:
        server.wait_until_ready(lambda _: None, 60.0)
        log = server.log.read_text()
    assert set(re.findall(r"successfully loaded '([\w-]+)'", log)) == names
