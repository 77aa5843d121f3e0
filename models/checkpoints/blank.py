"""Modules without values: built in no time and no memory, because a checkpoint's tensors take the places at once."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

ModuleT = TypeVar("ModuleT", bound=nn.Module)
_WITHOUT_VALUES = (torch.empty, torch.rand, torch.randn)


def blank(build: Callable[[], ModuleT]) -> ModuleT:
    """Build a module whose random and uninitialised tensors have a shape and a type only.

    What the module computes by itself, such as a table of sinusoids, has its values.

    Args:
        build: makes the module.

    Returns:
        The module; it cannot run before :func:`fill`.
    """
    with _Valueless():
        return build()


def fill(module: nn.Module, tensors: Iterable[tuple[str, Tensor]]) -> None:
    """Put tensors in the places of parameters and buffers, without a copy and in the types that they come in.

    Args:
        module: as :func:`blank` makes it.
        tensors: a name and a tensor of its shape for every entry of the module's ``state_dict``.
    """
    module.load_state_dict(dict(tensors), assign=True)
    held = [*module.named_parameters(), *module.named_buffers()]
    empty = [name for name, tensor in held if tensor.is_meta]
    assert not empty, f"no checkpoint holds {empty}, and the module does not compute them"


class _Valueless(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # Memory would be the smaller loss: drawing seven billion random numbers takes minutes.
        return func(*args, **{**(kwargs or {}), "device": "meta"} if func in _WITHOUT_VALUES else kwargs or {})
