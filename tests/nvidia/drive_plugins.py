"""Runs in a process of its own: NVIDIA's templates call our plugins as a builder would; their words as JSON.

TensorRT's C++ objects for sizes have no constructor. Ones that compute with numbers take their place: a symbol is a
number, and every operation of the plugin API on it is done at once. Bugs are planted in processes forked from this one:
a line of a plugin's source is another when it is imported.
"""

import importlib.util
import json
import os
import sys
from pathlib import Path

import numpy as np
import tensorrt_bindings as trt

sys.modules["tensorrt"] = trt


class Size:
    """In the place of a size that TensorRT knows when it runs."""

    def __init__(self, value):
        self.value = int(value)

    def is_constant(self):
        return False


OPERATIONS = {
    "SUM": lambda a, b: a + b,
    "SUB": lambda a, b: a - b,
    "PROD": lambda a, b: a * b,
    "FLOOR_DIV": lambda a, b: a // b,
    "CEIL_DIV": lambda a, b: -(-a // b),
    "MAX": max,
    "MIN": min,
}


class Builder:
    """In the place of what computes with sizes."""

    def constant(self, value):
        return Size(value)

    def operation(self, operation, first, second):
        return Size(OPERATIONS[operation.name](first.value, second.value))


class Registry:
    """In the place of TensorRT's."""

    def __init__(self):
        self.creators = {}

    def register_creator(self, creator, namespace):
        self.creators[creator.name, creator.plugin_version, namespace] = creator
        return True

    def get_creator(self, name, version, namespace):
        return self.creators.get((name, version, namespace))


class Struct:
    """Whatever is set on it."""


registry = Registry()
trt.get_plugin_registry = lambda: registry
trt.IDimensionExpr = Size
trt.ISymExpr = type("ISymExpr", (), {"__init__": lambda self: None})
trt.DimsExprs = lambda length: [None] * length

from export.graph.plugin_ops import NAMESPACE, NODES  # noqa: E402
from export.tensorrt.plugins import registration  # noqa: E402

registration.tensorrt_module = lambda: trt


def run(case):
    """One node: its outputs, launch and kernel."""
    name, inputs, attributes = case["plugin"], case["inputs"], case["attributes"]
    plugin = created(name, attributes)
    kinds = [getattr(trt.DataType, kind) for kind, _ in inputs]
    made = plugin.get_output_data_types(kinds, [len(shape) for _, shape in inputs])
    plugin.get_output_shapes([[Size(size) for size in shape] for _, shape in inputs], [], Builder())
    shapes = plugin.get_output_shapes([[Size(size) for size in shape] for _, shape in inputs], [], Builder())
    outputs = [[size.value for size in shape] for shape in shapes]
    varying = [
        [-1 if axis in (case.get("varying") or {}).get(str(i), []) else size for axis, size in enumerate(shape)]
        for i, (_, shape) in enumerate(inputs)
    ]
    in_out = [
        described(kind, shape) for kind, shape in [*zip(kinds, varying, strict=True), *zip(made, outputs, strict=True)]
    ]
    plugin.get_supported_format_combinations(in_out, len(inputs))
    plugin.set_tactic(0)
    launch, extra = Struct(), type("Setter", (dict,), {})()
    plugin.get_launch_params(None, in_out, len(inputs), launch, extra, Builder())
    kernel, ptx = plugin.get_kernel(
        [one.desc for one in in_out[: len(inputs)]], [one.desc for one in in_out[len(inputs) :]]
    )
    return {
        "types": [kind.name for kind in made],
        "shapes": outputs,
        "aliases": [plugin.get_aliased_input(index) for index in range(len(outputs))],
        "grid": [launch.grid_x.expr.value, launch.grid_y.expr.value, launch.grid_z.expr.value],
        "block": [launch.block_x.expr.value, launch.block_y.expr.value, launch.block_z.expr.value],
        "shared": launch.shared_mem.expr.value,
        "extra": [extra[index].expr.value for index in range(extra.nbSymExprs)],
        "kernel": kernel,
        "ptx": ptx.decode(),
    }


def created(name, attributes):
    creator = registry.get_creator(name, "1", NAMESPACE)
    fields = [trt.PluginField(key, np.array([value]), trt.PluginFieldType.INT64) for key, value in attributes.items()]
    request = trt.QuickPluginCreationRequest.STRICT_AOT
    return creator.create_plugin(name, NAMESPACE, trt.PluginFieldCollection(fields), trt.TensorRTPhase.BUILD, request)


def described(kind, shape):
    one = trt.DynamicPluginTensorDesc()
    one.desc.type, one.desc.format, one.desc.dims = kind, trt.TensorFormat.LINEAR, trt.Dims(shape)
    return one


def schema(name):
    import tensorrt.plugin as trtp

    known = trtp._lib.QDP_REGISTRY[f"{NAMESPACE}::{name}"]
    return [list(known.input_tensor_names), list(known.input_attrs), known.num_outputs]


def plant(module, old, new):
    """Import a module of export.tensorrt.plugins with another line."""
    name = f"export.tensorrt.plugins.{module}"
    spec = importlib.util.find_spec(name)
    source = Path(spec.origin).read_text()
    assert source.count(old) >= 1, f"no {old!r} in {module}"
    made = sys.modules[name] = importlib.util.module_from_spec(spec)
    exec(compile(source.replace(old, new), spec.origin, "exec"), made.__dict__)  # noqa: S102


def said(target, cases):
    """What the plugins are and say of these nodes."""
    embedding = registration.register_plugins()
    with embedding.embed_kernels(target) as embedded:
        ran = [run(case) for case in cases]
    return {"schemas": {name: schema(name) for name in NODES}, "ran": ran, "hashes": embedded.hashes()}


def said_with(bug, target, cases):
    """The same of a bug's node, in a process of its own; what was raised, if something was."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            plant(bug["module"], bug["old"], bug["new"])
            answer = said(target, [case for case in cases if case["plugin"] == bug["plugin"]])
        except Exception as error:
            answer = {"raised": f"{type(error).__name__}: {error}"}
        with os.fdopen(writing, "w") as pipe:
            json.dump(answer, pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = json.load(pipe)
    os.wait()
    return answer


asked = json.load(sys.stdin)
import torch  # noqa: E402, F401  (what every process forked from here has imported already)

planted = [said_with(bug, asked["target"], asked["cases"]) for bug in asked["bugs"]]
json.dump({**(said(asked["target"], asked["cases"]) if not planted else {}), "planted": planted}, sys.stdout)
