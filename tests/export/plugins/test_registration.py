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
from export.kernels.compile import fitting
from export.kernels.gpu_targets import WITHOUT_LEAVE_BYTES, GpuTarget
from export.kernels.ptx import parameters, version
from export.plugins.nodes import NODES
from models.layers.rope import Rotation
from tests.nvidia.libraries import HERE, ROOT, VERSIONS, bindings, made_libraries

HALF = torch.float16
CASES = [
    {
        "plugin": "flash_attention",
        "inputs": [["HALF", [3, 4, 130, 64]], *[["HALF", [3, 2, 300, 64]]] * 2, ["INT32", [3]]],
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
_COUNTS = '{"queries": count, "capacity": capacity}'
BUGS = {
    "an attribute of another name": ("flash_attention", "flash_attention", "causal: int", "causal_: int", "raised"),
    "an attribute that is not registered": (
        "combine_splits",
        "combine_splits",
        "heads: int, element_type: int) -> trtp.TensorDesc",
        "heads: int, element_type: int = 1) -> trtp.TensorDesc",
        "raised",
    ),
    "an attribute that is read the other way round": (
        "flash_attention",
        "flash_attention",
        "bool(causal)",
        "not causal",
        "ptx",
    ),
    "a window without its shift": (
        "window_attention",
        "window_attention",
        "window, shift, cosine, None",
        "window, 0, cosine, None",
        "ptx",
    ),
    "a shape that forgets the groups": (
        "combine_splits",
        "combine_splits",
        "rows * groups // heads",
        "rows",
        "shapes",
    ),
    "parts for each head and not for each group": (
        "decode_attention",
        "decode_attention",
        "heads * count // groups)",
        "heads * count)",
        "shapes",
    ),
    "a result of another type": (
        "decode_attention",
        "decode_attention",
        "trt.DataType.FLOAT",
        "queries.dtype",
        "types",
    ),
    "a grid over the cache instead of the queries": (
        "flash_attention",
        "flash_attention",
        "grid(kernel, batch, count)",
        "grid(kernel, batch, capacity)",
        "grid",
    ),
    "a grid without the splits": (
        "decode_attention",
        "decode_attention",
        "decode_attention.grid(kernel, queries.shape_expr[0])",
        "decode_attention.grid(kernel, queries.shape_expr[0])[:1]",
        "grid",
    ),
    "numbers in each other's place": (
        "flash_attention",
        "flash_attention",
        _COUNTS,
        '{"queries": capacity, "capacity": count}',
        "extra",
    ),
    "numbers in another order": (
        "flash_attention",
        "flash_attention",
        _COUNTS,
        '{"capacity": capacity, "queries": count}',
        "raised",
    ),
    "inputs in another order": (
        "decode_attention",
        "decode_attention",
        "    keys: trtp.TensorDesc,\n    values: trtp.TensorDesc,",
        "    values: trtp.TensorDesc,\n    keys: trtp.TensorDesc,",
        "schema",
    ),
    "caches at each other's address": (
        "decode_append_attention",
        "decode_append_attention",
        "past_keys.aliased(), past_values.aliased()",
        "past_values.aliased(), past_keys.aliased()",
        "aliases",
    ),
    "a cache that is no alias": (
        "decode_append_attention",
        "decode_append_rotary_attention",
        "past_keys.aliased(), ",
        "past_keys.like(), ",
        "aliases",
    ),
    "a block of one warp": ("embedding", "flash_attention", "block_x=made.threads", "block_x=32", "block"),
    "no shared memory": ("embedding", "flash_attention", "shared_mem=made.shared_bytes", "shared_mem=0", "shared"),
}
"""Bug → module, plugin, the line as it is and as it is planted, and where it shows."""
TARGET = "sm_90"
TYPES = {"HALF": torch.float16, "FLOAT": torch.float32, "INT32": torch.int32, "INT64": torch.int64, "BOOL": torch.bool}
KINDS = {dtype: kind for kind, dtype in TYPES.items()}


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
    found = driven_by("11.4.0", tmp_path_factory.mktemp("libraries"), bugs)["planted"]
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
    compiled = fitting(specialised, TARGET, WITHOUT_LEAVE_BYTES)
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
