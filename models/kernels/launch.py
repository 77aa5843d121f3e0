"""Launch a kernel on PyTorch's tensors: on a CUDA device, or on a CPU by Triton's interpreter (interpreter.py)."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, cast

import torch
from torch import Tensor

from attendant.errors import InputError, MachineError
from models.kernel_configs.specialisation import Specialisation, pointer, type_name
from models.kernels.interpreter import interprets, mend_bfloat16

Arguments = dict[str, Tensor | int]
FP_FUSION = True
"""Multiply and add in one rounding; said aloud, because Triton's default changes from release to release."""


def launch(specialised: Specialisation, grid: tuple[int, ...], arguments: Arguments) -> None:
    """Run a kernel; its outputs are among its arguments.

    Args:
        specialised: which kernel.
        grid: blocks along each axis.
        arguments: by name; tensors are contiguous, on one device and of the types that the kernel is specialised for.

    Raises:
        InputError: an argument is not what the kernel was specialised for.
        MachineError: the tensors' device cannot run it in this process.
    """
    for name, expected in specialised.types.items():
        _require_argument(name, arguments[name], expected)
    devices = {argument.device for argument in arguments.values() if isinstance(argument, Tensor)}
    if len(devices) != 1:
        raise InputError("tensors on one device", str(devices), "move them together")
    device = devices.pop()
    if interprets() != (device.type == "cpu"):
        mode = "interpreted" if interprets() else "compiled"
        remedy = "set TRITON_INTERPRET=1 before Triton is imported to interpret on a CPU, and unset it for a GPU"
        raise MachineError(f"tensors on a device that runs {mode} kernels", str(device), remedy)
    if interprets():
        mend_bfloat16()
    # Triton launches on the current device, which need not be the tensors'.
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        specialised.kernel[grid](**keywords(specialised, arguments))


def lie_together(queries: Tensor, keys: Tensor, values: Tensor) -> bool:
    """Whether ``[B, H, S, D]`` and twice ``[B, G, S, D]`` are views of one tensor ``[B, S, W, D]``, in this order.

    W = H + 2 G. Of a single position each is contiguous, and that is not meant; nor are rows that 32 bits do not count.
    """
    batch, heads, count, size = queries.shape
    width = (heads + 2 * keys.shape[1]) * size
    first, end = queries.data_ptr(), heads * size
    for x, place in ((queries, 0), (keys, end), (values, end + keys.shape[1] * size)):
        if x.data_ptr() != first + place * x.element_size():
            return False
        expected = (count * width, size, width, 1)
        if any(n > 1 and have != want for n, have, want in zip(x.shape, x.stride(), expected, strict=True)):
            return False
    return batch * count > 1 and count * width < 2**31


def in_one_line(view: Tensor) -> Tensor:
    """From the first number of a view to its last, one behind the other."""
    last = sum((n - 1) * step for n, step in zip(view.shape, view.stride(), strict=True))
    return view.as_strided((last + 1,), (1,))


def require_shape(name: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    """Refuse a tensor of another shape.

    Raises:
        InputError: it has one.
    """
    if tuple(tensor.shape) != shape:
        raise InputError(f"{name} of shape {list(shape)}", str(list(tensor.shape)), "see the launcher's arguments")


def keywords(specialised: Specialisation, arguments: Arguments) -> dict[str, Any]:
    """What Triton's launcher takes for a kernel: arguments, descriptors in the place of some, constants, settings."""
    settings: dict[str, Any] = {"num_warps": specialised.warps, "num_stages": specialised.stages}
    settings["enable_fp_fusion"] = FP_FUSION
    if specialised.registers is not None:
        settings["maxnreg"] = specialised.registers
    if specialised.overlaps:
        settings["launch_pdl"] = True
    described: dict[str, Any] = {}
    if specialised.boxes:
        from models.kernels.tma import describe_tensor  # here, because Triton may lack Gluon

        described = {
            name: describe_tensor(cast(Tensor, arguments[name]), box) for name, box in specialised.boxes.items()
        }
    return {**arguments, **described, **specialised.constants, **settings}


def _require_argument(name: str, argument: Tensor | int, expected: str) -> None:
    if isinstance(argument, int):
        if expected != "i32":
            raise InputError(f"a tensor {name}", f"the number {argument}", "pass a tensor")
        return
    if pointer(type_name(argument.dtype)) != expected:
        raise InputError(f"{name} of Triton's type {expected}", str(argument.dtype), "convert the tensor")
    if not argument.is_contiguous():
        raise InputError(f"{name} contiguous", f"strides {argument.stride()}", "call contiguous() first")
