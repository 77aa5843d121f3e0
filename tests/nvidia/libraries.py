"""Stand-ins for NVIDIA's libraries, made by gcc, on the loader's path of a process of its own."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
VERSIONS = {"11.4.0": "tensorrt-11.4", "10.16.1": "tensorrt-10.16"}
"""TensorRT → the folder of the environment that holds its Python bindings; see the Makefile."""


def bindings(version):
    """The folder with the bindings of a version."""
    folder = Path(sys.prefix) / VERSIONS[version]
    if not (folder / "tensorrt_bindings").is_dir():
        pytest.skip(f"needs TensorRT's Python bindings {version} in {folder}: `make .venv/.dev`")
    return folder


def made_libraries(folder, version="11.4.0", cuda=True):
    """Compile them; the folder to put on the loader's path."""
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    major, minor, patch = (int(part) for part in version.split("."))
    define = f"-DVERSION={major * 10000 + minor * 100 + patch}"
    for name in ("nvinfer", "nvinfer_plugin", "nvonnxparser"):
        _compile(HERE / "nvinfer.c", folder / f"lib{name}.so.{major}", define)
    if cuda:
        _compile(HERE / "libcuda.c", folder / "libcuda.so.1")
    return folder


def python(code, libraries, *paths):
    """Run code in a process that finds these libraries; what it prints, read as JSON."""
    search = os.pathsep.join([str(ROOT), *map(str, paths)])
    environment = {**os.environ, "LD_LIBRARY_PATH": str(libraries), "PYTHONPATH": search}  # noqa: TID251
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _compile(source, library, *words):
    name = f"-Wl,-soname,{library.name}"
    subprocess.run(["gcc", "-w", "-shared", "-fPIC", *words, "-o", library, source, name, "-ldl"], check=True)
