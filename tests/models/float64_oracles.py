"""Oracles in float64: without this, transformers rounds to float32 in its norms, softmaxes, rotations and buckets."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


def oracle_precision(dtype: torch.dtype) -> AbstractContextManager[object]:
    """Within it an oracle computes in its own type throughout; one in float32 does so anyway."""
    return FullPrecision() if dtype == torch.float64 else nullcontext()


class FullPrecision(TorchFunctionMode):
    """A context in which float32 means float64 wherever a tensor of float64 or of integers is converted.

    That is ``x.float()``, and ``torch.float32`` among the arguments of anything whose first argument is such a
    tensor: ``x.to(torch.float32)``, ``softmax(x, dtype=torch.float32)``.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if not args or not isinstance(args[0], Tensor) or _is_less_than_double(args[0]):
            return func(*args, **kwargs)
        if func is Tensor.float:
            return args[0].double()
        return func(*map(_widened, args), **{name: _widened(value) for name, value in kwargs.items()})


def _is_less_than_double(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and tensor.dtype != torch.float64


def _widened(value: Any) -> Any:
    return torch.float64 if value is torch.float32 else value
