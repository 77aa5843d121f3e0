"""A torch tensor as a runner's buffer, on a CPU or a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import torch
from torch import Tensor

from attendant.errors import InputError
from serving.runtime.base import Array, numpy_dtype


class TorchBuffer:
    """A contiguous tensor that stays where it is.

    Attributes:
        tensor: the contents.
        dtype: its element type, in a signature's words.
        place: address and shape, by which recorded work knows it again.
    """

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.dtype = str(tensor.dtype).removeprefix("torch.")
        self.place = tensor.data_ptr(), tuple(tensor.shape)

    @property
    def address(self) -> int:
        """Where the first element lies, in the memory of its device."""
        return self.place[0]

    @property
    def nbytes(self) -> int:
        return self.tensor.nbytes

    def numpy(self) -> Array:
        """The contents; on a CPU the same memory, from a GPU a copy; of bfloat16 the bits."""
        tensor = self.tensor
        return _on_host(tensor.view(torch.uint16) if tensor.dtype is torch.bfloat16 else tensor).numpy()

    def write(self, array: Array) -> None:
        """Replace the contents.

        Raises:
            InputError: the array has another type or shape.
        """
        if array.dtype != numpy_dtype(self.dtype) or array.shape != self.place[1]:
            expected, found = f"{self.dtype} {list(self.place[1])}", f"{array.dtype.name} {list(array.shape)}"
            raise InputError(f"an array {expected}, as its buffer is", found, "convert it before it is written")
        self.tensor.copy_(tensor_from_numpy(array, self.dtype))

    def part(self, begin: int, shape: tuple[int, ...]) -> TorchBuffer:
        return TorchBuffer(self.tensor.view(-1)[begin : begin + prod(shape)].view(shape))

    def copy_rows(self, sources: Sequence[int], targets: Sequence[int], positions: int | None = None) -> None:
        # What is read is a tensor of its own before anything is written: rows can be exchanged.
        filled = self.tensor if positions is None else self.tensor[:, :, :positions]
        filled[list(targets)] = filled[list(sources)]


def torch_dtype(dtype: str) -> torch.dtype:
    """The type that torch has for a signature's type word."""
    found: torch.dtype = getattr(torch, dtype)
    return found


def tensor_from_numpy(array: Array, dtype: str) -> Tensor:
    """A tensor in an array's memory, or in a copy where that cannot be written to; bits become bfloat16."""
    tensor = torch.from_numpy(np.require(array, requirements=["C", "W"]))
    return tensor.view(torch.bfloat16) if dtype == "bfloat16" else tensor


def _on_host(tensor: Tensor) -> Tensor:
    if not tensor.is_cuda:
        return tensor
    # Pinned memory is copied to at several times the speed, and torch keeps freed pieces of it for the next copy.
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor)
