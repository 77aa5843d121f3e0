"""The parameters of ``config.pbtxt`` that a model's body, or a client, reads back."""

from typing import Literal, get_args

THREADS = "threads"
MOST_THREADS = 1024
MAX_PREFILL_TOKENS = 256
"""Positions of prompts that a step works on at most, if nothing else is asked for."""
RUNTIME = "runtime"
Runtime = Literal["auto", "onnxruntime", "openvino", "openvino-bf16"]
RUNTIMES: tuple[Runtime, ...] = get_args(Runtime)
ROUNDING: frozenset[Runtime] = frozenset({"openvino-bf16"})
"""Those that compute in fewer bits than a graph says."""
DEVICE = "device"
Device = Literal["auto", "cpu", "cuda", "cuda-no-gluon"]
DEVICES: tuple[Device, ...] = get_args(Device)
"""What torch runs on; ``cuda-no-gluon`` is a GPU without the kernels in Triton's experimental language Gluon."""
ARTEFACT = "artefact"
"""A hash of an artefact's files: two loads of a model that differ in nothing else are told apart by it."""
GRAPH_MODEL = "graph_model"
"""The model of the same server that runs the graph of a body, where it does not run it itself."""
