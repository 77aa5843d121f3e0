"""The parameters of ``config.pbtxt`` that a model's body reads back."""

from typing import Literal, get_args

THREADS = "threads"
MOST_THREADS = 1024
RUNTIME = "runtime"
Runtime = Literal["auto", "onnxruntime", "openvino", "openvino-bf16"]
RUNTIMES: tuple[Runtime, ...] = get_args(Runtime)
DEVICE = "device"
Device = Literal["auto", "cpu", "cuda", "cuda-no-gluon"]
DEVICES: tuple[Device, ...] = get_args(Device)
"""What torch runs on; ``cuda-no-gluon`` is a GPU without the kernels in Triton's experimental language Gluon."""
GRAPH_MODEL = "graph_model"
"""The model of the same server that runs the graph of a body, where it does not run it itself."""
