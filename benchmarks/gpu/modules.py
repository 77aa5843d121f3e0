"""Modules as the benchmarks of the torch runner share them, and how long a call takes."""

import copy
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import nn

from models.layers.attend import Kernel
from serving.runtime.torch.loading import attention_on


def build_in_bfloat16(build: Callable[[], nn.Module], device: torch.device) -> nn.Module:
    """A module with random bfloat16 weights, made where it stays."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with device:
            # Tables that are computed come in float32; runners convert them, and so does what goes without a runner.
            return build().to(torch.bfloat16).eval().requires_grad_(False)
    finally:
        torch.set_default_dtype(before)


def with_the_same_weights(module: nn.Module) -> nn.Module:
    """Another module over the same weights, whose layers attend by what they are told."""
    return copy.deepcopy(module, {id(weight): weight for weight in (*module.parameters(), *module.buffers())})


@cache
def attention_for(device: torch.device) -> Kernel:
    """What serving attends by on a device: one for all variants, which share layers."""
    return attention_on(device)


def seconds(call: Callable[[], Any], repeats: int, device: torch.device) -> float:
    """Of one call, the mean of some in a row."""
    synchronise = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    synchronise()
    began = time.perf_counter()
    for _ in range(repeats):
        call()
    synchronise()
    return (time.perf_counter() - began) / repeats
