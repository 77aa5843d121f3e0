"""NVIDIA's own Python code registers our plugins, asks their shapes and takes their launches, as a builder would.

The library under it is ten empty functions, and sizes compute with numbers: tests/nvidia/drive_plugins.py.
"""

import json
import os
import subprocess
import sys

import pytest
import torch

from export.graph.plugin_ops import NODES
from models.kernel_configs.gpu_targets import WITHOUT_LEAVE_BYTES, GpuTarget
from models.kernels import (
    additive_attention,
    combine_splits,
    decode_append_attention,
    decode_attention,
    flash_attention,
    launch,
    window_attention,
)
from models.kernels.compile import compile_to_fit
from models.kernels.ptx import parameters, version
from models.layers.rope import Rotation
from tests.export.tensorrt.plugins.registration_cases import BUGS, CASES, HALF, KINDS, TARGET, TYPES
from tests.nvidia.libraries import HERE, ROOT, VERSIONS, bindings, made_libraries

pytestmark = pytest.mark.slow
NEWEST = max(VERSIONS, key=lambda version: [int(part) for part in version.split(".")])


def driven_by(version, folder, bugs=()):
    """What NVIDIA's templates of a version say of every case, or of those into which bugs were planted."""
    bindings_folder = bindings(version)
    made_libraries(folder, version, cuda=False)
    search = os.pathsep.join([str(ROOT), str(bindings_folder)])
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder), "PYTHONPATH": search}  # noqa: TID251
    done = subprocess.run(
        [sys.executable, str(HERE / "drive_plugins.py")],
        input=json.dumps({"target": TARGET, "cases": CASES, "bugs": list(bugs)}),
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module", params=VERSIONS)
def driven(request, tmp_path_factory):
    """What NVIDIA's templates say of every case."""
    return driven_by(request.param, tmp_path_factory.mktemp("libraries"))


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """Bug → what the newer templates say with it."""
    bugs = [dict(zip(("module", "plugin", "old", "new"), bug[:4], strict=True)) for bug in BUGS.values()]
    found = driven_by(NEWEST, tmp_path_factory.mktemp("libraries"), bugs)["planted"]
    return dict(zip(BUGS, found, strict=True))


@pytest.fixture(scope="module")
def by_torch():
    """The launch that PyTorch's launcher of each kernel would make on the same shapes: grid, arguments, kernel."""
    with pytest.MonkeyPatch.context() as patch:
        return {case["plugin"]: _launched(case, patch) for case in CASES}


def _launched(case, patch):
    made = []

    def note(specialised, grid, arguments):
        made.append((specialised, grid, arguments))

    for module in (
        flash_attention,
        decode_attention,
        combine_splits,
        decode_append_attention,
        window_attention,
        additive_attention,
    ):
        patch.setattr(module, "launch", note)
        if hasattr(module, "target_of"):
            patch.setattr(module, "target_of", lambda device: GpuTarget(90, WITHOUT_LEAVE_BYTES, "as plugins tile"))
    tensors = [torch.zeros(shape, dtype=TYPES[kind]) for kind, shape in case["inputs"]]
    _call(case["plugin"], tensors, case["attributes"])
    return made[0]


def _call(plugin, tensors, numbers):
    if plugin == "flash_attention":
        flash_attention.flash_attention(*tensors, causal=True)
    elif plugin == "decode_attention":
        decode_attention.decode_attention(*tensors, causal=True, splits=numbers["splits"])
    elif plugin == "combine_splits":
        combine_splits.combine_splits(*tensors, torch.zeros(3, 4, 2, 64, dtype=HALF))
    elif plugin == "decode_append_attention":
        q, new_k, new_v, past_k, past_v, start = tensors
        decode_append_attention.decode_append_attention(
            q, new_k, new_v, None, (past_k, past_v), start, splits=numbers["splits"]
        )
    elif plugin == "decode_append_rotary_attention":
        q, new_k, new_v, cosines, sines, past_k, past_v, start = tensors
        turn = Rotation(cosines, sines, "half")
        decode_append_attention.decode_append_attention(
            q, new_k, new_v, turn, (past_k, past_v), start, splits=numbers["splits"]
        )
    elif plugin == "additive_attention":
        additive_attention.additive_attention(*tensors)
    else:
        q, k, v, table, *scales = tensors
        window_attention.window_attention(q, k, v, table, numbers["window"], numbers["shift"], *scales)


def of(driven, plugin):
    return driven["ran"][[case["plugin"] for case in CASES].index(plugin)]


SCHEMAS = {name: [list(node.inputs), list(node.attributes), len(node.outputs)] for name, node in NODES.items()}


def differences(plugin, found, launched):
    """In what a plugin's words differ from the launch that PyTorch would make; none for a plugin that is right."""
    specialised, grid, arguments = launched
    names = list(specialised.types)
    numbers = [name for name in names if specialised.types[name] == "i32"]
    outputs = names[names.index(numbers[-1]) + 1 :]
    compiled = compile_to_fit(specialised, TARGET, WITHOUT_LEAVE_BYTES)
    wanted = {
        "grid": [*grid, 1, 1][:3],
        "block": [32 * specialised.warps, 1, 1],
        "shared": compiled.shared_bytes,
        "extra": [arguments[name] for name in numbers],
        "shapes": [list(arguments[name].shape) for name in outputs],
        "types": [KINDS[arguments[name].dtype] for name in outputs],
        "aliases": aliases(NODES[plugin]),
        "ptx": compiled.ptx,
    }
    return [name for name, value in wanted.items() if found[name] != value]


def aliases(node):
    pairs = dict(node.aliases)
    return [node.inputs.index(pairs[name]) if name in pairs else -1 for name in node.outputs]


def test_every_plugin_is_registered_with_the_tensors_and_numbers_that_its_nodes_have(driven):
    assert driven["schemas"] == SCHEMAS
    assert [case["plugin"] for case in CASES] == list(NODES)


@pytest.mark.parametrize("plugin", NODES)
def test_a_launch_is_that_of_pytorchs_launcher(driven, by_torch, plugin):
    assert differences(plugin, of(driven, plugin), by_torch[plugin]) == []
    specialised, _, arguments = by_torch[plugin]
    names = list(specialised.types)
    numbers = [name for name in names if specialised.types[name] == "i32"]
    first = names.index(numbers[0])
    assert names[first : first + len(numbers)] == numbers, "numbers stand between inputs and outputs"
    case = next(case for case in CASES if case["plugin"] == plugin)
    assert [list(arguments[name].shape) for name in names[:first]] == [shape for _, shape in case["inputs"]]


@pytest.mark.planted
@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_in_a_registration_is_caught_by_these_comparisons(planted, by_torch, bug):
    _, plugin, _, _, where = BUGS[bug]
    found = planted[bug]
    if where in ("schema", "raised"):
        assert found.get("raised") if where == "raised" else found["schemas"] != SCHEMAS
        return
    assert found["schemas"] == SCHEMAS, "only what was planted is wrong"
    assert where in differences(plugin, found["ran"][0], by_torch[plugin])


@pytest.mark.parametrize("plugin", NODES)
def test_the_ptx_takes_what_tensorrt_passes_and_nothing_else(driven, by_torch, plugin):
    found, specialised = of(driven, plugin), by_torch[plugin][0]
    assert found["kernel"] in found["ptx"] and ".target sm_90a" in found["ptx"]
    declared = parameters(found["ptx"])
    assert len(declared) == len(specialised.types)
    pointers = [".u64" in one or ".ptr" in one for one in declared]
    assert pointers == [kind != "i32" for kind in specialised.types.values()]
    assert version(found["ptx"]) <= 87
    assert found["shared"] <= WITHOUT_LEAVE_BYTES, (
        "more needs the driver's leave, which nobody has seen TensorRT ask for"
    )


@pytest.mark.parametrize(
    ("plugin", "past"), [("decode_append_attention", [3, 4]), ("decode_append_rotary_attention", [5, 6])]
)
def test_caches_that_are_written_lie_at_the_address_of_those_that_are_read(driven, plugin, past):
    assert of(driven, plugin)["aliases"] == [-1, -1, *past]
    assert all(set(one["aliases"]) == {-1} for one in driven["ran"] if "append" not in one["kernel"])


def test_every_plugin_has_a_hash_of_its_own(driven):
    assert driven["hashes"].keys() == NODES.keys()
    assert len(set(driven["hashes"].values())) == len(NODES)


def test_pytorchs_launcher_is_the_one_that_was_asked():
    assert flash_attention.launch is launch.launch
