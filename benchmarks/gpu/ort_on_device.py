"""A standard's ONNX graph on ONNX Runtime's CUDA provider, fed from torch's memory; on a CPU, its CPU provider."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnxruntime as ort
import torch

from attendant.manifest import Manifest
from attendant.signature import GraphSignature
from serving.runtime.base import Array, Buffer, numpy_dtype
from serving.runtime.torch.buffer import TorchBuffer, torch_dtype

PROVIDERS = {"cuda": "CUDAExecutionProvider", "cpu": "CPUExecutionProvider"}


class OrtOnDevice:
    """A graph of an artefact; a runner as far as :class:`CachedDecoder` needs one."""

    def __init__(self, folder: Path, device: torch.device, graph: str = "decoder") -> None:
        self._device = device
        self.signature: GraphSignature = Manifest.read(folder).graph(graph)
        options = ort.SessionOptions()
        options.log_severity_level = 3
        providers = [PROVIDERS[device.type]]
        self._session = ort.InferenceSession(str(folder / f"{graph}.onnx"), options, providers=providers)

    def allocate(self, name: str, sizes: Mapping[str, int]) -> TorchBuffer:
        spec = self.signature.input(name)
        return TorchBuffer(torch.zeros(spec.shape(sizes), dtype=torch_dtype(spec.dtype), device=self._device))

    def run(self, feeds: Mapping[str, Array | Buffer]) -> dict[str, Any]:
        """Run the graph; caches are bound as input and output, logits come to the host."""
        binding = self._session.io_binding()
        for spec in self.signature.inputs:
            feed = feeds[spec.name]
            if isinstance(feed, TorchBuffer):
                place, shape = feed.place
                binding.bind_input(spec.name, self._device.type, 0, numpy_dtype(spec.dtype), shape, place)
            else:
                binding.bind_cpu_input(spec.name, np.ascontiguousarray(feed))
        aliases = self.signature.aliases
        for spec in self.signature.outputs:
            if spec.name in aliases:
                buffer = feeds[aliases[spec.name]]
                assert isinstance(buffer, TorchBuffer)
                place, shape = buffer.place
                binding.bind_output(spec.name, self._device.type, 0, numpy_dtype(spec.dtype), shape, place)
            else:
                binding.bind_output(spec.name, "cpu")
        self._session.run_with_iobinding(binding)
        shown = [spec.name for spec in self.signature.outputs if spec.name not in aliases]
        found = dict(zip([spec.name for spec in self.signature.outputs], binding.get_outputs(), strict=True))
        return {name: SimpleNamespace(numpy=found[name].numpy().view) for name in shown}
