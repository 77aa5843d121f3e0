"""What a decoder does at each step beside projections: a Transformer's cache append, an RNN's additive attention.

Legend: B batch, H query heads, G key and value heads, M cached positions, D head size, S source positions, A width of
the alignment network, C width of an annotation.
"""

import torch
from torch import Tensor

from benchmarks.gpu.cases import BACKENDS, Call, Case, attention_inputs, draw, single_query_libraries
from models.kernel_configs.decode_tiles import splits_for
from models.kernels.additive_attention import additive_attention
from models.kernels.decode_append_attention import decode_append_attention
from models.layers.rope import Rope, RopeConfig


def append(
    batch: int, heads: int, kv_heads: int, cached: int, size: int, multiprocessors: int, device: torch.device
) -> Case:
    """Rotate a new position, write it into the caches and attend to all of them; every call writes the same."""
    q, k, v = attention_inputs(batch, heads, kv_heads, 1, cached, size, device)
    generator = torch.Generator(device).manual_seed(1)
    new_k, new_v = draw((2, batch, kv_heads, 1, size), generator)
    start = torch.full((batch,), cached - 1, dtype=torch.int64, device=device)
    rotation = Rope(size, RopeConfig()).to(device)(start[:, None])
    splits = splits_for(batch * kv_heads, cached, multiprocessors)
    places = start[:, None, None, None].expand_as(new_k)

    def apart(rotated: Tensor, attend: Call) -> Tensor:
        rotated.copy_(rotation.apply(q))
        k.scatter_(2, places, rotation.apply(new_k))
        v.scatter_(2, places, new_v)
        return attend()

    def library(name: str) -> Call:
        rotated = torch.empty_like(q)
        attend = single_query_libraries(rotated, k, v)[name]
        return lambda: apart(rotated, attend)

    names = [name for backend in BACKENDS for name in (backend, f"{backend}, heads as positions")]
    known = single_query_libraries(q, k, v)
    return Case(
        kind="append",
        name=f"B {batch}, H {heads}/{kv_heads}, M {cached}, D {size}, {splits} splits",
        ours=lambda: decode_append_attention(q, new_k, new_v, rotation, (k, v), start, splits=splits),
        rivals={f"rotate, scatter, {name}": library(name) for name in names if name in known},
        flops=4 * batch * heads * cached * size,
        moved_bytes=2 * 2 * k.numel(),
        cached=cached,
    )


def additive(batch: int, source: int, width: int, columns: int, device: torch.device, compiles: bool = True) -> Case:
    """Bahdanau's scores, weights and context of one state."""
    generator = torch.Generator(device).manual_seed(0)
    query, score = draw((batch, width), generator), draw((width,), generator)
    keys, annotations = draw((batch, source, width), generator), draw((batch, source, columns), generator)
    mask = torch.arange(source, device=device) < torch.randint(
        1, source + 1, (batch, 1), generator=generator, device=device
    )

    def plain() -> Tensor:
        scores_BS = torch.tanh(query[:, None] + keys) @ score
        hidden_BS = scores_BS.masked_fill(~mask, torch.finfo(scores_BS.dtype).min)
        return (hidden_BS.softmax(1).masked_fill(~mask, 0)[:, None] @ annotations)[:, 0]

    if compiles:
        torch._dynamo.reset()
    rivals: dict[str, Call] = {"torch": plain}
    return Case(
        kind="additive",
        name=f"B {batch}, S {source}, A {width}, C {columns}",
        ours=lambda: additive_attention(query, keys, score, annotations, mask)[0],
        rivals=rivals | ({"torch.compile": torch.compile(plain, dynamic=False)} if compiles else {}),
        flops=batch * source * (3 * width + 2 * columns),
        moved_bytes=2 * batch * source * (width + columns),
    )
