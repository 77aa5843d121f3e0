"""Runs in a process of its own: every public name of TensorRT's bindings with its description, as JSON."""

import json
import sys

import tensorrt_bindings as trt


def described(owner):
    return {name: (getattr(owner, name).__doc__ or "") for name in dir(owner) if not name.startswith("__")}


classes = {name: described(value) for name, value in vars(trt).items() if isinstance(value, type)}
json.dump({"version": trt.__version__, "classes": classes, "names": sorted(vars(trt))}, sys.stdout)
