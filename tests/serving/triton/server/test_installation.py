from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from attendant.errors import MachineError
from serving.triton.server import installation
from serving.triton.server.environment import server_environment
from serving.triton.server.installation import find_installation


def test_the_wheel_has_a_program_a_backend_and_the_stub_of_this_python():
    found = find_installation()
    assert os.access(found.server, os.X_OK)
    assert (found.backends / "python" / "libtriton_python.so").exists()
    assert found.stub is not None
    assert found.stub.parent.name == f"{sys.version_info.major}.{sys.version_info.minor}"


def test_the_loader_finds_everything_that_the_stub_needs_in_the_environment_of_the_server():
    found = find_installation()
    trace = {**server_environment(found.libraries), "LD_TRACE_LOADED_OBJECTS": "1"}
    listed = subprocess.run([str(found.stub)], env=trace, capture_output=True, text=True, check=True).stdout
    assert "libpython" in listed
    assert "not found" not in listed


def test_finding_the_wheel_does_not_import_it():
    probe = "import sys; from serving.triton.server.installation import find_installation as find; find()"
    code = f"{probe}; sys.exit(bool({{'pytriton', 'numpy', 'torch', 'onnx'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], env=server_environment(()), check=False).returncode == 0


def test_a_python_without_a_stub_is_refused_with_those_that_have_one():
    with pytest.raises(MachineError, match=r"stub for Python 3\.99.*3\.11, 3\.12, 3\.13"):
        find_installation(python_version=(3, 99))


def test_a_numpy_of_the_second_generation_beside_the_wheel_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2.3.0")
    with pytest.raises(MachineError, match="numpy older than 2"):
        find_installation()


def test_a_machine_without_any_server_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(installation, "SYSTEM_SERVER", tmp_path / "bin" / "tritonserver")
    with pytest.raises(MachineError, match=r'pip install "attendant\[cpu\]"'):
        find_installation()


def test_a_named_server_brings_its_own_backends(tmp_path: Path):
    server = tmp_path / "bin" / "tritonserver"
    for path in (server, tmp_path / "backends" / "python" / "triton_python_backend_stub"):
        path.parent.mkdir(parents=True)
        path.touch()
    found = find_installation(server)
    assert (found.server, found.backends, found.stub) == (server, tmp_path / "backends", None)
