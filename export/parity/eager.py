"""A checkpoint's graphs run by PyTorch itself, in float32 or float64: the measure of every runtime."""

from collections.abc import Iterable, Mapping

import numpy as np
import torch
from torch import Tensor, nn

from attendant.signature import GraphSignature
from models.checkpoints.exported_program import copy_as
from models.task_graph import TaskGraph
from serving.runtime.base import Array, ArrayBuffer, Buffer, numpy_dtype


class EagerRunner:
    """One graph's module behind the Runner protocol, all that is float32 in it in one type."""

    def __init__(self, graph: TaskGraph, dtype: torch.dtype) -> None:
        self._signature = graph.signature
        self._module = copy_as(graph.module, dtype)
        self._dtype = dtype

    @property
    def signature(self) -> GraphSignature:
        """What goes in and what comes out; its float32 stands for the runner's own type."""
        return self._signature

    def allocate(self, name: str, sizes: Mapping[str, int]) -> ArrayBuffer:
        """A zeroed buffer for the input of that name."""
        spec = self._signature.input(name)
        zeros = torch.from_numpy(np.zeros(spec.shape(sizes), numpy_dtype(spec.dtype)))
        return ArrayBuffer(_cast(zeros, self._dtype).numpy())

    @torch.no_grad()
    def run(self, feeds: Mapping[str, Array | Buffer]) -> dict[str, Buffer]:
        """Run the module once; see :class:`serving.runtime.base.Runner`."""
        arrays = {
            spec: torch.from_numpy(np.ascontiguousarray(_array(feeds[spec.name]))) for spec in self._signature.inputs
        }
        # Of another type than float32 is what the module itself asks for.
        tensors = [_cast(array, self._dtype) if spec.dtype == "float32" else array for spec, array in arrays.items()]
        outputs = self._module(*tensors)
        outputs = [outputs] if isinstance(outputs, Tensor) else outputs
        named = zip(self._signature.outputs, outputs, strict=True)
        return {spec.name: self._write_output(spec.name, output, feeds) for spec, output in named}

    def _write_output(self, name: str, output: Tensor, feeds: Mapping[str, Array | Buffer]) -> Buffer:
        source = feeds.get(self._signature.aliases.get(name, ""))
        if not isinstance(source, ArrayBuffer):
            return ArrayBuffer(output.numpy())
        source.numpy()[...] = output.numpy()
        return source


def eager_runners(graphs: Iterable[TaskGraph], dtype: torch.dtype) -> dict[str, EagerRunner]:
    """A runner for every graph: graph name → runner."""
    return {graph.signature.name: EagerRunner(graph, dtype) for graph in graphs}


@torch.no_grad()
def full_forward(model: nn.Module, dtype: torch.dtype, *arrays: Array) -> Array:
    """The model's own forward pass in a given precision, for translation without any cache."""
    tensors = (_cast(torch.from_numpy(np.ascontiguousarray(array)), dtype) for array in arrays)
    output: Tensor = copy_as(model, dtype)(*tensors)
    return output.numpy()


def _array(feed: Array | Buffer) -> Array:
    return feed if isinstance(feed, np.ndarray) else feed.numpy()


def _cast(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor.to(dtype) if tensor.is_floating_point() else tensor
