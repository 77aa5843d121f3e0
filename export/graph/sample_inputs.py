"""Tensors that fit a graph: for tracing it, and for asking two runtimes the same question."""

from collections.abc import Mapping

import torch
from torch import Tensor

from attendant.signature import GraphSignature, TensorSpec


def sample_inputs(signature: GraphSignature, sizes: Mapping[str, int], seed: int = 0) -> dict[str, Tensor]:
    """Random tensors for every input of a graph.

    Args:
        signature: the graph.
        sizes: the size of each varying axis.
        seed: of the random numbers.

    Returns:
        Input name → tensor: floats from N(0, 1), bytes of any value, other integers 0, masks true.
    """
    generator = torch.Generator().manual_seed(seed)
    return {spec.name: _tensor(spec, spec.shape(sizes), generator) for spec in signature.inputs}


def _tensor(spec: TensorSpec, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    if spec.dtype == "bool":
        return torch.ones(shape, dtype=torch.bool)
    if spec.dtype == "uint8":
        return torch.randint(256, shape, dtype=torch.uint8, generator=generator)
    if spec.dtype.startswith("int"):
        return torch.zeros(shape, dtype=getattr(torch, spec.dtype))
    return torch.randn(shape, generator=generator).to(getattr(torch, spec.dtype))
