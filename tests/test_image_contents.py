"""What the GPU image installs is all that building, checking and serving engines import there."""

import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
LIGHT, TORCH = (ROOT / "deploy/triton.Dockerfile").read_text().split("FROM light AS torch")
BUILDING = "import export.verbs, export.tensorrt.build, export.tensorrt.refit, export.tensorrt.compat"
SERVING = "import serving.verbs, serving.triton.repository.layout, serving.runtime.tensorrt.runner, clients.verbs"
PLUGINS = (
    "import export.tensorrt.passes.fuse_decode_append, export.tensorrt.passes.fuse_window_attention, "
    "models.kernels.compile"
)
NO_TORCH = ("torch", "safetensors", "onnxscript")
BROUGHT = {"triton"}
"""By a CUDA build of torch, which the metadata of a CPU build does not say."""


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def installed(target):
    """The distributions that a target of the Dockerfile installs, with all that they need."""
    words = re.search(r"^RUN pip install ([^\n\\]+)", target, re.MULTILINE)[1].split()
    asked = [word for word in words if not word.startswith("-") and word not in ("constraints.txt", ".")]
    own = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"] if "." in words else []
    left, found = [Requirement(word) for word in [*asked, *own]], {}
    while left:
        one = left.pop()
        name = normal(one.name)
        if name in found and one.extras <= found[name]:
            continue
        found[name] = found.get(name, set()) | one.extras
        left += [need for need in needs(name) if applies(need, one.extras)]
    return set(found)


def needs(name):
    try:
        return [Requirement(text) for text in metadata.requires(name) or []]
    except metadata.PackageNotFoundError:  # of another platform, or not in this environment
        return []


def applies(need, extras):
    return not need.marker or any(need.marker.evaluate({"extra": extra}) for extra in ("", *extras))


def missing(code, absent, there):
    """Third parties' modules that a process loads although no distribution that is there brings them."""
    hidden = f"import sys; sys.modules.update(dict.fromkeys({list(absent)}))\n"
    shown = "\nprint(*{name.split('.')[0] for name, one in sys.modules.items() if getattr(one, '__file__', None)})"
    loaded = subprocess.run([sys.executable, "-c", hidden + code + shown], capture_output=True, text=True, check=True)
    owners = {name: set(map(normal, owning)) for name, owning in metadata.packages_distributions().items()}
    ours = {"attendant", "setuptools"}
    return {name for name in loaded.stdout.split() if name in owners and not owners[name] & (there | ours)}


def test_the_light_image_has_what_building_and_serving_import():
    assert missing(f"{BUILDING}\n{SERVING}", NO_TORCH, installed(LIGHT)) == set()


@pytest.mark.slow
def test_the_image_with_torch_has_what_plugins_import_too():
    pytest.importorskip("triton")
    assert missing(PLUGINS, ("onnxscript",), installed(LIGHT) | installed(TORCH) | BROUGHT) == set()


@pytest.mark.planted
def test_a_package_that_is_left_out_is_found():
    without = LIGHT.replace(" onnx-ir", "")
    assert "onnx_ir" in missing(BUILDING, NO_TORCH, installed(without))
