"""What is timed: calls of our kernels and of the libraries that compute the same, on the same tensors.

Legend: B batch, H query heads, G key and value heads, S queries, M cached positions, D head size.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from models.kernel_configs.decode_tiles import splits_for
from models.kernels.decode_attention import decode_attention
from models.kernels.flash_attention import flash_attention

Call = Callable[[], Tensor]
BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cuDNN": SDPBackend.CUDNN_ATTENTION,
    "memory-efficient": SDPBackend.EFFICIENT_ATTENTION,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One call, by our kernel and by libraries.

    Attributes:
        kind: prefill, hopper, decode, append, windows or additive: what decides about the target.
        rivals: library's name → its call; one that raises RuntimeError or ValueError says that it cannot.
        flops: multiplications and additions that the result takes.
        moved_bytes: that must come from memory or go to it.
        cached: positions behind which it decodes; 0 if it does not.
    """

    kind: str
    name: str
    ours: Call
    rivals: Mapping[str, Call]
    flops: int
    moved_bytes: int
    cached: int = 0


def prefill(
    batch: int,
    heads: int,
    kv_heads: int,
    length: int,
    size: int,
    causal: bool,
    device: torch.device,
    attend: Callable[..., Tensor] = flash_attention,
    kind: str = "prefill",
) -> Case:
    """All positions of rows of one length, by a kernel that takes arguments as flash_attention does."""
    q, k, v = attention_inputs(batch, heads, kv_heads, length, length, size, device)
    lengths = torch.full((batch,), length, dtype=torch.int32, device=device)
    pairs = length * (length + 1) // 2 if causal else length**2
    return Case(
        kind=kind,
        name=f"{'causal' if causal else 'full'}, B {batch}, H {heads}/{kv_heads}, S {length}, D {size}",
        ours=lambda: attend(q, k, v, lengths, causal=causal),
        rivals={name: by_library(name, q, k, v, causal) for name in BACKENDS},
        flops=4 * batch * heads * pairs * size,
        moved_bytes=2 * (2 * q.numel() + 2 * k.numel()),
    )


def decode(
    batch: int, heads: int, kv_heads: int, cached: int, size: int, multiprocessors: int, device: torch.device
) -> Case:
    """One new position behind caches of one length."""
    q, k, v = attention_inputs(batch, heads, kv_heads, 1, cached, size, device)
    lengths = torch.full((batch,), cached, dtype=torch.int32, device=device)
    splits = splits_for(batch * kv_heads, cached, multiprocessors)
    return Case(
        kind="decode",
        name=f"B {batch}, H {heads}/{kv_heads}, M {cached}, D {size}, {splits} splits",
        ours=lambda: decode_attention(q, k, v, lengths, splits=splits),
        rivals=single_query_libraries(q, k, v),
        flops=4 * batch * heads * cached * size,
        moved_bytes=2 * 2 * k.numel(),
        cached=cached,
    )


def single_query_libraries(q: Tensor, k: Tensor, v: Tensor) -> dict[str, Call]:
    """Every back end as it is, and with the query heads of a key head as its positions, which no back end refuses."""
    calls = {name: by_library(name, q, k, v, causal=False) for name in BACKENDS}
    if q.shape[1] == k.shape[1]:
        return calls
    grouped = q.unflatten(1, (k.shape[1], -1)).squeeze(3)

    def as_positions(name: str) -> Call:
        call = by_library(name, grouped, k, v, causal=False)
        return lambda: call().reshape_as(q)

    return calls | {f"{name}, heads as positions": as_positions(name) for name in BACKENDS}


def by_library(name: str, q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Call:
    def call() -> Tensor:
        with sdpa_kernel(BACKENDS[name]):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])

    return call


def attention_inputs(
    batch: int, heads: int, kv_heads: int, queries: int, keys: int, size: int, device: torch.device
) -> list[Tensor]:
    """Queries, keys and values in float16, made where they stay: the largest take seconds on a CPU."""
    generator = torch.Generator(device).manual_seed(0)
    shapes = (heads, queries), (kv_heads, keys), (kv_heads, keys)
    return [draw((batch, *shape, size), generator) for shape in shapes]


def draw(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Normal numbers in float16 on the generator's device."""
    return torch.randn(shape, generator=generator, device=generator.device, dtype=torch.float16)
