"""NVIDIA's own Python code registers our plugins, asks their shapes and takes their launches, as a builder would.

The library under it is ten empty functions, and sizes compute with numbers: tests/nvidia/drive_plugins.py.
"""

import json
import os
import subprocess
import sys

import pytest
import torch

from export.kernels import (
    additive_attention,
    combine_splits,
    decode_append_attention,
    decode_attention,
    flash_attention,
    launch,
    window_attention,
)
from export.kernels.gpu_targets import GpuTarget
from export.kernels.ptx import parameters, version
from export.plugins.nodes import NODES
from models.layers.rope import Rotation
from tests.nvidia.libraries import HERE, ROOT, VERSIONS, bindings, made_libraries

HALF = torch.float16
CASES = [
    {
        "plugin": "flash_attention",
        "inputs": [["HALF", [3, 4, 130, 64]], *[["HALF", [3, 2, 200, 64]]] * 2, ["INT32", [3]]],
        "attributes": {"causal": 1},
        "varying": {"0": [0, 2], "1": [0], "2": [0], "3": [0]},
    },
    {
        "plugin": "decode_attention",
        "inputs": [["HALF", [3, 4, 2, 64]], *[["HALF", [3, 2, 200, 64]]] * 2, ["INT32", [3]]],
        "attributes": {"causal": 1, "rows": 4, "splits": 4},
        "varying": {"0": [0, 2]},
    },
    {
        "plugin": "combine_splits",
        "inputs": [["FLOAT", [3, 2, 4, 4, 64]], ["FLOAT", [3, 2, 4, 4]]],
        "attributes": {"heads": 4, "element_type": 10},
        "varying": {"0": [0, 3]},
    },
    {
        "plugin": "decode_append_attention",
        "inputs": [
            ["HALF", [3, 4, 2, 64]],
            *[["HALF", [3, 2, 2, 64]]] * 2,
            *[["HALF", [3, 2, 200, 64]]] * 2,
            ["INT32", [3]],
        ],
        "attributes": {"rows": 4, "splits": 4},
        "varying": {"0": [0, 2]},
    },
    {
        "plugin": "decode_append_rotary_attention",
        "inputs": [
            ["HALF", [3, 4, 2, 64]],
            *[["HALF", [3, 2, 2, 64]]] * 2,
            *[["FLOAT", [3, 1, 2, 32]]] * 2,
            *[["HALF", [3, 2, 200, 64]]] * 2,
            ["INT64", [3]],
        ],
        "attributes": {"rows": 4, "splits": 4},
        "varying": {"0": [0, 2]},
    },
    {
        "plugin": "window_attention",
        "inputs": [*[["HALF", [2, 14, 21, 32]]] * 3, ["HALF", [2, 169]]],
        "attributes": {"window": 7, "shift": 3},
        "varying": {"0": [0]},
    },
    {
        "plugin": "cosine_window_attention",
        "inputs": [*[["HALF", [2, 14, 21, 32]]] * 3, ["HALF", [2, 169]], ["FLOAT", [2]]],
        "attributes": {"window": 7, "shift": 3},
        "varying": {"0": [0]},
    },
    {
        "plugin": "additive_attention",
        "inputs": [["HALF", [5, 33]], ["HALF", [5, 21, 33]], ["HALF", [33]], ["HALF", [5, 21, 50]], ["BOOL", [5, 21]]],
        "attributes": {"longest": 32},
        "varying": {"1": [0, 1]},
    },
]
TYPES = {"HALF": torch.float16, "FLOAT": torch.float32, "INT32": torch.int32, "INT64": torch.int64, "BOOL": torch.bool}


@pytest.fixture(scope="module", params=VERSIONS)
def driven(request, tmp_path_factory):
    """What NVIDIA's templates say of every case."""
    folder, libraries = bindings(request.param), tmp_path_factory.mktemp("libraries")
    made_libraries(libraries, request.param, cuda=False)
    search = os.pathsep.join([str(ROOT), str(folder)])
    environment = {**os.environ, "LD_LIBRARY_PATH": str(libraries), "PYTHONPATH": search}  # noqa: TID251
    done = subprocess.run(
        [sys.executable, str(HERE / "drive_plugins.py")],
        input=json.dumps({"target": "sm_90", "cases": CASES}),
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


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
            patch.setattr(module, "target_of", lambda device: GpuTarget(90, 99 * 1024, "as plugins tile"))
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


def test_every_plugin_is_registered_with_the_tensors_and_numbers_that_its_nodes_have(driven):
    wanted = {name: [list(node.inputs), list(node.attributes), len(node.outputs)] for name, node in NODES.items()}
    assert driven["schemas"] == wanted
    assert [case["plugin"] for case in CASES] == list(NODES)


@pytest.mark.parametrize("plugin", NODES)
def test_a_launch_is_that_of_pytorchs_launcher(driven, by_torch, plugin):
    found, (specialised, grid, arguments) = of(driven, plugin), by_torch[plugin]
    assert found["grid"] == [*grid, 1, 1][:3]
    assert found["block"] == [32 * specialised.warps, 1, 1]
    names = list(specialised.types)
    numbers = [name for name in names if specialised.types[name] == "i32"]
    assert found["extra"] == [arguments[name] for name in numbers]
    first = names.index(numbers[0])
    assert names[first : first + len(numbers)] == numbers, "numbers stand between inputs and outputs"
    case = next(case for case in CASES if case["plugin"] == plugin)
    assert [list(arguments[name].shape) for name in names[:first]] == [shape for _, shape in case["inputs"]]
    outputs = names[first + len(numbers) :]
    assert [list(arguments[name].shape) for name in outputs] == found["shapes"]
    assert [arguments[name].dtype for name in outputs] == [TYPES[kind] for kind in found["types"]]


@pytest.mark.parametrize("plugin", NODES)
def test_the_ptx_takes_what_tensorrt_passes_and_nothing_else(driven, by_torch, plugin):
    found, specialised = of(driven, plugin), by_torch[plugin][0]
    assert found["kernel"] in found["ptx"] and ".target sm_90a" in found["ptx"]
    declared = parameters(found["ptx"])
    assert len(declared) == len(specialised.types)
    pointers = [".u64" in one or ".ptr" in one for one in declared]
    assert pointers == [kind != "i32" for kind in specialised.types.values()]
    assert version(found["ptx"]) <= 87
    assert found["shared"] <= 48 * 1024, "more needs the driver's leave, which nobody has seen TensorRT ask for"


@pytest.mark.parametrize(
    ("plugin", "past"), [("decode_append_attention", [3, 4]), ("decode_append_rotary_attention", [5, 6])]
)
def test_caches_that_are_written_lie_at_the_address_of_those_that_are_read(driven, plugin, past):
    node = NODES[plugin]
    wanted = [
        node.inputs.index(dict(node.aliases)[name]) if name in dict(node.aliases) else -1 for name in node.outputs
    ]
    assert of(driven, plugin)["aliases"] == wanted == [-1, -1, *past]
    assert all(set(one["aliases"]) == {-1} for one in driven["ran"] if "append" not in one["kernel"])


def test_every_plugin_has_a_hash_of_its_own(driven):
    assert driven["hashes"].keys() == NODES.keys()
    assert len(set(driven["hashes"].values())) == len(NODES)


def test_a_launch_for_other_rows_would_be_noticed(driven, by_torch):
    specialised, _, _ = by_torch["flash_attention"]
    assert of(driven, "flash_attention")["grid"] != [*flash_attention.grid(specialised, 3, 1), 1]


def test_pytorchs_launcher_is_the_one_that_was_asked():
    assert flash_attention.launch is launch.launch
