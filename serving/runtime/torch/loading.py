"""From an artefact of ``export torch`` to runners: its weights on a device, a module for each of its graphs."""

from pathlib import Path

import torch

from attendant.errors import MachineError, UnknownNameError
from attendant.manifest import Manifest
from attendant.parameters import Device
from attendant.signature import GraphSignature
from models.checkpoints.store import load_checkpoint
from models.layers.attend import Kernel, attend_in_groups
from serving.runtime.torch.runner import TorchRunner

_DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


class TorchGraphs:
    """The graphs of one artefact, which share their weights."""

    def __init__(self, folder: Path, manifest: Manifest, threads: int = 1, device: Device = "auto") -> None:
        """Read the weights.

        Args:
            folder: the artefact.
            manifest: its own.
            threads: for the work inside one operator on a CPU; of the whole process, as torch has it.
            device: ``auto`` is a GPU where torch sees one; ``cuda-no-gluon`` a GPU without kernels in Gluon.

        Raises:
            MachineError: a GPU is requested, and torch sees none.
            ArtefactError: a file is missing or damaged.
        """
        self._device, self._dtype = _device(device), _DTYPES[manifest.precision]
        if self._device.type == "cpu":
            torch.set_num_threads(threads)
        checkpoint = load_checkpoint(folder)
        self._graphs = {graph.signature.name: graph for graph in checkpoint.graphs()}
        self._attention = attention_on(
            self._device, gluon=device != "cuda-no-gluon"
        )  # one for all graphs: they share layers

    def runner(self, signature: GraphSignature) -> TorchRunner:
        """What runs the graph of a signature."""
        graph = self._graphs[signature.name]
        return TorchRunner(signature, graph.module, self._device, self._dtype, graph.below, attention=self._attention)


def attention_on(device: torch.device, gluon: bool = True) -> Kernel:
    """What attention layers compute by: our own kernels on a GPU that they are made for, torch's elsewhere.

    Args:
        device: where they compute.
        gluon: whether a kernel in Gluon may be chosen.
    """
    if device.type == "cpu":
        return attend_in_groups
    try:
        from serving.runtime.torch.attention import fused_attention  # Triton comes along with CUDA builds of torch

        return fused_attention(device, gluon)
    except (ImportError, UnknownNameError):  # no Triton, or a GPU that the kernels are not made for
        return attend_in_groups


def _device(device: Device) -> torch.device:
    sees_one = torch.cuda.is_available()
    if device.startswith("cuda") and not sees_one:
        raise MachineError("a GPU that torch sees", f"none, torch {torch.__version__}", "serve with --device cpu")
    return torch.device("cuda" if sees_one and device != "cpu" else "cpu")
