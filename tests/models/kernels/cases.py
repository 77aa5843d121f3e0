"""One call of each kernel beside its reference: what was found and what was wanted, on a CPU or a GPU.

``package`` is ``models.kernels``, or a copy of it with a bug planted. What lies behind a row's length is NaN, so that a
kernel which reads it is found out. Values are of the order of 1.
"""

from importlib import import_module

import pytest
import torch

from models.layers.rope import Rope, RopeConfig
from tests.models.agreement import difference

KERNELS = "models.kernels"
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
every_dtype = pytest.mark.parametrize("dtype", ["float32", pytest.param("float16", marks=pytest.mark.slow), "bfloat16"])
# float32: sums in another order, of scores up to 10. Halves: weights and results are rounded to 11 or 8 bits, and
# results reach 4.
TOLERANCES = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3.2e-2}


def worst(pairs):
    """The largest difference of the pairs; a place is as it should be where both are NaN."""
    differences = []
    for found, wanted in pairs:
        unwritten = found.isnan() & wanted.isnan()
        differences.append(
            difference(found.double().masked_fill(unwritten, 0), wanted.double().masked_fill(unwritten, 0))
        )
    return max(differences)


def flash(package=KERNELS, dtype="float32", device="cpu", together=False, **sizes):
    q, k, v, lengths = attention_inputs(dtype, device, **sizes)
    settings = {"causal": sizes["causal"], "scale": sizes.get("scale")}
    given = as_one_product(q, k, v) if together else (q, k, v)
    found = _function(package, "flash_attention")(*given, lengths, **settings)
    return [(found, _function(KERNELS, "flash_attention_reference")(q, k, v, lengths, **settings))]


def hopper_flash(package=KERNELS, dtype="float16", device="cuda", **sizes):
    q, k, v, lengths = attention_inputs(dtype, device, **sizes)
    settings = {"causal": sizes["causal"], "scale": sizes.get("scale")}
    found = _function(package, "hopper_flash_attention")(q, k, v, lengths, **settings)
    wanted = _function(KERNELS, "flash_attention_reference")(q.double(), k.double(), v.double(), lengths, **settings)
    return [(found, wanted)]


def decode(package=KERNELS, dtype="float32", device="cpu", splits=3, **sizes):
    q, k, v, lengths = attention_inputs(dtype, device, **sizes)
    settings = {"causal": sizes["causal"], "scale": sizes.get("scale")}
    found = _function(package, "decode_attention")(q, k, v, lengths, splits=splits, **settings)
    return [(found, _function(KERNELS, "flash_attention_reference")(q, k, v, lengths, **settings))]


def append(package=KERNELS, dtype="float32", device="cpu", layout="half", splits=3, together=False, **sizes):
    q, k, v, start = attention_inputs(dtype, device, **sizes)
    shape = (*k.shape[:2], sizes["queries"], k.shape[3])
    new = [x.to(DTYPES[dtype]).to(device) for x in torch.randn(2, *shape, generator=torch.Generator().manual_seed(1))]
    rotation = None
    if layout is not None:
        positions = start[:, None] + torch.arange(sizes["queries"], device=device)
        rotation = Rope(k.shape[3], RopeConfig(layout=layout)).to(device)(positions)
    ours, theirs = (k.clone(), v.clone()), (k.clone(), v.clone())
    given = as_one_product(q, *new) if together else (q, *new)
    found = _function(package, "decode_append_attention")(*given, rotation, ours, start, splits=splits)
    wanted = _function(KERNELS, "decode_append_attention_reference")(q, *new, rotation, theirs, start)
    return [(found, wanted), *zip(ours, theirs, strict=True)]


def rotate(package=KERNELS, dtype="float32", device="cpu", layout="half", together=False, **sizes):
    q, k, v, start = attention_inputs(dtype, device, **sizes)
    shape = (*k.shape[:2], sizes["queries"], k.shape[3])
    new = [x.to(DTYPES[dtype]).to(device) for x in torch.randn(2, *shape, generator=torch.Generator().manual_seed(1))]
    positions = start[:, None] + torch.arange(sizes["queries"], device=device)
    rotation = None
    if layout is not None:
        rotation = Rope(k.shape[3], RopeConfig(layout=layout)).to(device)(positions)
    ours, theirs = (k.clone(), v.clone()), (k.clone(), v.clone())
    given = as_one_product(q, *new) if together else (q, *new)
    found = _function(package, "rotate_append")(*given, rotation, ours, start)
    turned = [x if rotation is None else rotation.apply(x.float()).to(x.dtype) for x in (q, new[0])]
    for cache, written in zip(theirs, (turned[1], new[1]), strict=True):
        for row, position in enumerate(start.tolist()):
            kept = min(sizes["queries"], cache.shape[2] - position)
            cache[row, :, position : position + kept] = written[row, :, :kept]
    return [(found, turned[0]), *zip(ours, theirs, strict=True)]


def gated(package=KERNELS, dtype="float32", device="cpu", width=40, rows=(2, 3)):
    whole = torch.randn(*rows, 2 * width, generator=torch.Generator().manual_seed(0))
    gate, scaled = whole.to(DTYPES[dtype]).to(device).split(width, -1)
    found = _function(package, "gated_product")(gate, scaled)
    return [(found, torch.nn.functional.silu(gate.double()) * scaled.double())]


def skinny(
    package=KERNELS,
    dtype="float32",
    device="cpu",
    rows=1,
    width=40,
    columns=5,
    norm="rms",
    around="residual",
    bias=True,
):
    """``around``: what is behind the product, ``gate``, ``residual`` or nothing."""
    gated, generator = around == "gate", torch.Generator().manual_seed(0)
    height = columns * (2 if gated else 1)
    shapes = (rows, 1, width), (height, width), (height,), (rows, 1, columns)
    drawn = [torch.randn(shape, generator=generator).to(DTYPES[dtype]).to(device) for shape in shapes]
    inputs, weight, added, residual = drawn[0] + 1, drawn[1] / width**0.5, drawn[2], drawn[3]
    layer = {"rms": torch.nn.RMSNorm, "layer": torch.nn.LayerNorm, None: None}[norm]
    if layer is not None:
        layer = layer(width, eps=1e-5).to(device, DTYPES[dtype]).requires_grad_(False)
        for number in layer.parameters():
            number.copy_(torch.randn(width, generator=generator))
    added, residual = added if bias else None, residual if around == "residual" else None
    found = _function(package, "skinny_product")(inputs, weight, added, layer, residual, gated)
    normed = inputs if layer is None else layer(inputs)
    wanted = torch.nn.functional.linear(normed.double(), weight.double(), None if added is None else added.double())
    if gated:
        wanted = torch.nn.functional.silu(wanted[..., :columns]) * wanted[..., columns:]
    return [(found, wanted if residual is None else wanted + residual)]


def as_one_product(*tensors):
    """Views of one tensor ``[B, S, W, D]``."""
    whole = torch.cat([x.transpose(1, 2) for x in tensors], 2)
    return [part.transpose(1, 2) for part in whole.split([x.shape[1] for x in tensors], 2)]


def windows(
    package=KERNELS, dtype="float32", device="cpu", window=4, shift=2, cosine=False, heads=2, size=8, down=2, across=3
):
    generator = torch.Generator().manual_seed(0)
    shape = (2, down * window, across * window, heads * size)
    q, k, v = torch.randn(3, *shape, generator=generator).to(DTYPES[dtype]).to(device)
    table = torch.randn(heads, (2 * window - 1) ** 2, generator=generator).to(DTYPES[dtype]).to(device)
    scales = torch.linspace(3, 10, heads, device=device) if cosine else None
    found = _function(package, "window_attention")(q, k, v, table, window, shift, scales)
    return [(found, _function(KERNELS, "window_attention_reference")(q, k, v, table, window, shift, scales))]


def additive(package=KERNELS, dtype="float32", device="cpu", batch=3, source=21, width=33, columns=50):
    generator = torch.Generator().manual_seed(0)
    shapes = (batch, width), (batch, source, width), (width,), (batch, source, columns)
    query, keys, score, annotations = (
        torch.randn(shape, generator=generator).to(DTYPES[dtype]).to(device) for shape in shapes
    )
    mask = (torch.rand(batch, source, generator=generator) < 0.6).to(device)
    mask[-1] = batch == 1
    annotations[~mask] = torch.nan
    found = _function(package, "additive_attention")(query, keys, score, annotations, mask)
    wanted = _function(KERNELS, "additive_attention_reference")(query, keys, score, annotations, mask)
    return list(zip(found, wanted, strict=True))


def attention_inputs(dtype, device, *, lengths, heads, kv_heads, size, queries, capacity, index="int32", **_):
    """Queries, keys, values and lengths."""
    generator = torch.Generator().manual_seed(0)
    shapes = (heads, queries), (kv_heads, capacity), (kv_heads, capacity)
    drawn = (torch.randn(len(lengths), *shape, size, generator=generator) for shape in shapes)
    q, k, v = (x.to(DTYPES[dtype]).to(device) for x in drawn)
    for row, length in enumerate(lengths):
        k[row, :, length:] = v[row, :, length:] = torch.nan
    return q, k, v, torch.tensor(lengths, dtype=getattr(torch, index), device=device)


def _function(package, name):
    return getattr(import_module(f"{package}.{name}"), name)
