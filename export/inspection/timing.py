"""Where the time of an artefact's graphs goes: sizes to ask about, and what ONNX Runtime's profiler says.

A graph that takes new tokens behind a cache is asked twice: for a prompt that fills half the cache, 128 positions at
most, and for one token that attends to as many. Other axes have their usual size. All at batch 1, on one thread of this
machine.
"""

from collections.abc import Iterator
from pathlib import Path

from attendant.errors import ArtefactError
from attendant.signature import GraphSignature
from export.bounded.process import guarded
from export.graph.sample_inputs import sample_inputs
from export.inspection.facts import Timing
from serving.runtime.base import numpy_dtype
from serving.runtime.ort.node_times import profile

_CAPACITY_AXIS = 2
_LONGEST_PROMPT = 128  # of models of published size a longer prompt takes minutes


def timings(folder: Path, signature: GraphSignature) -> tuple[tuple[Timing, ...], str]:
    """Profile a graph.

    Returns:
        What was measured, and why nothing was where ONNX Runtime on this machine cannot load the graph.

    Raises:
        ArtefactError: it fails as it runs the graph.
    """
    path = folder / f"{signature.name}.onnx"
    with guarded(f"ONNX Runtime to run {path}"):
        try:
            return tuple(_measure(path, signature, name, sizes) for name, sizes in questions(signature)), ""
        except ArtefactError as error:
            return (), error.found


def questions(signature: GraphSignature) -> Iterator[tuple[str, dict[str, int]]]:
    """The sizes to ask a graph about: prompt and step where it has a cache, else one call."""
    sizes = {symbol: axis.opt for symbol, axis in signature.axes.items()} | {"batch": 1}
    if "steps" not in sizes:
        yield "call", sizes
        return
    half = min(max(1, capacity(signature) // 2), _LONGEST_PROMPT)
    yield "prompt", {**sizes, "steps": half, "attended": half}
    yield "step", {**sizes, "steps": 1, "attended": half}


def capacity(signature: GraphSignature) -> int:
    """M, how many positions the caches of a graph hold; 0 where it has none."""
    axes = [signature.input(name).axes for name in signature.aliases.values()]
    return max((axis for a in axes if len(a) == 4 and isinstance(axis := a[_CAPACITY_AXIS], int)), default=0)


def _measure(path: Path, signature: GraphSignature, name: str, sizes: dict[str, int]) -> Timing:
    types = {spec.name: numpy_dtype(spec.dtype) for spec in signature.inputs}
    feeds = {key: tensor.numpy().astype(types[key]) for key, tensor in sample_inputs(signature, sizes).items()}
    return Timing(name=name, sizes=sizes, profile=profile(path, signature, feeds, sizes))
