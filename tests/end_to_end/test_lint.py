"""What the linter says a server refuses, the real server refuses: one start on one broken model a rule."""

import re
import tempfile

import pytest

from attendant.errors import ServerError
from serving.lint.registry import MODEL_RULES
from serving.lint.sources import REFUSED
from serving.triton.server.ports import free_ports
from serving.triton.server.process import TritonServer
from serving.triton.server.settings import ServerSettings
from tests.serving.lint.broken_models import CASES
from tests.serving.lint.sound_models import STEP
from tests.serving.lint.test_rules import write
from tests.serving.triton.server.sample_models import DOUBLE

# They need backends that the wheel lacks; without model.py its Python backend never ends loading, and so never refuses.
UNTRIED = {"backend", "instance-kind", "model-file"}
SAYS_WHICH = re.compile(r"(?:model directory '|failed to load '|in ensemble |argument: ensemble )([\w-]+)")


def write_in_python(model, text, files):
    """The configuration, with the Python backend in the place of others."""
    files = [name.replace("model.onnx", "model.py") for name in files]
    write(model, text.replace('"onnxruntime"', '"python"'), files)
    for path in model.glob("*/model.py"):
        path.write_text(DOUBLE)


@pytest.mark.slow
def test_the_server_refuses_what_the_linter_says_it_refuses(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    models = tmp_path / "models"
    expected = {rule.name for rule in MODEL_RULES if REFUSED in rule.consequence} - UNTRIED
    for name in expected:
        case = CASES[name]
        files = case.files if case.broken_files is None else case.broken_files
        write_in_python(models / name, case.broken_text.replace('name: "m"', f'name: "{name}"'), files)
    write_in_python(models / "step", STEP, ("1/model.onnx",))
    http, grpc, metrics = free_ports(3)
    settings = ServerSettings(repository=models, http_port=http, grpc_port=grpc, metrics_port=metrics)
    with TritonServer(settings) as server, pytest.raises(ServerError, match="failed to load all models"):
        server.wait_until_ready(lambda _: None, 60.0)
    log = server.log.read_text()
    errors = [line for line in log.splitlines() if re.match(r"E\d{4} ", line)]
    assert {name for line in errors for name in SAYS_WHICH.findall(line)} == expected
    assert "successfully loaded 'step'" in log
