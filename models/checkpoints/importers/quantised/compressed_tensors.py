"""Folders of compressed-tensors, as llm-compressor writes them: rows as they are multiplied.

    pack-quantized      weight_packed [out, in·b/32] of q + 2^(b−1) · weight_scale [out, groups] · weight_shape [2]
                        weight_zero_point [out·b/32, groups] · weight_g_idx [in]
    int-quantized       weight int8 [out, in] · weight_scale [out, 1]

W = s (q − z), z absent or packed as q is. Activations of int-quantized may be of 8 bits with a scale a row, measured
while the model runs, as ours are in int8 (:mod:`export.passes.quantise.quantise_dynamic`).
Source: compressed-tensors 0.20, ``compressors`` and ``quantization/quant_args.py``.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from models.checkpoints.importers.quantised.scheme import Scheme, Shape, group_size, integers, refuse, unpack
from models.checkpoints.integers import Bits, Integers

_NAME = "compressed-tensors"
_PACKED, _PLAIN = "pack-quantized", ("int-quantized", "naive-quantized")
_NOTE = "the checkpoint's activations are of 8 bits, as those of --precision int8 are; others do not round them"


def compressed_tensors(values: Mapping[str, Any]) -> Scheme:
    """The scheme of a ``quantization_config``.

    Raises:
        ConfigError: it has another arithmetic than ours.
    """
    form, groups = values.get("format"), values.get("config_groups")
    if (
        not isinstance(groups, Mapping)
        or len(groups) != 1
        or not isinstance(group := next(iter(groups.values())), Mapping)
    ):
        found = f"{len(groups)} config_groups" if isinstance(groups, Mapping | list) else "no config_groups"
        raise refuse(_NAME, f"{found}, not one")
    for name in ("kv_cache_scheme", "transform_config"):
        if values.get(name):
            raise refuse(_NAME, name)
    sparsity = values.get("sparsity_config")
    if sparsity and (not isinstance(sparsity, Mapping) or sparsity.get("format", "dense") != "dense"):
        raise refuse(_NAME, "a sparsity_config")
    if form not in (_PACKED, *_PLAIN) or group.get("format", form) not in (form, None):
        raise refuse(_NAME, f"format {group.get('format') or form!r}")
    weights, activations = group.get("weights"), group.get("input_activations")
    if not isinstance(weights, Mapping) or weights.get("type", "int") != "int" or weights.get("dynamic"):
        raise refuse(_NAME, f"weights of type {weights.get('type') if isinstance(weights, Mapping) else weights!r}")
    bits, strategy = (
        weights.get("num_bits"),
        weights.get("strategy") or ("group" if weights.get("group_size") else "tensor"),
    )
    if type(bits) is not int or bits not in ((4, 8) if form == _PACKED else (8,)):
        raise refuse(_NAME, f"{form} of {bits!r} bits")
    if strategy not in ("tensor", "channel", "group"):
        raise refuse(_NAME, f"the strategy {strategy!r}")
    if group.get("output_activations") or (activations and (form == _PACKED or not _is_by_row(activations))):
        raise refuse(_NAME, "quantised activations, but those of 8 bits with a scale a token, measured while it runs")
    size = group_size(_NAME, weights.get("group_size") if strategy == "group" else -1)
    of_word = 32 // bits

    def shape(shapes: Mapping[str, Shape]) -> Shape:
        rows, columns = shapes[".weight_packed"]
        return rows, columns * of_word

    if form != _PACKED:
        plain = (".weight", ".weight_scale", ".weight_zero_point")
        note = _NOTE if activations else ""
        return Scheme(
            name=_NAME,
            parts=plain,
            shape=lambda shapes: shapes[".weight"],
            read=lambda read: _read_plain(_with_zeros(read, weights), size),
            note=note,
        )
    parts = (".weight_packed", ".weight_scale", ".weight_shape", ".weight_zero_point", ".weight_g_idx")
    return Scheme(
        name=_NAME,
        parts=parts,
        shape=shape,
        read=lambda read: _read_packed(_with_zeros(read, weights), 4 if bits == 4 else 8, size),
        order=".weight_g_idx",
        group=size,
    )


def _is_by_row(activations: Any) -> bool:
    wanted = {"num_bits": 8, "type": "int", "strategy": "token", "dynamic": True, "symmetric": True}
    return isinstance(activations, Mapping) and all(activations.get(name) == one for name, one in wanted.items())


def _with_zeros(parts: Mapping[str, Tensor], weights: Mapping[str, Any]) -> Mapping[str, Tensor]:
    if weights.get("symmetric") is False and ".weight_zero_point" not in parts:
        raise ValueError("no weight_zero_point, though its levels are not symmetric")
    return parts


def _read_packed(parts: Mapping[str, Tensor], bits: Bits, group: int) -> Integers:
    levels = unpack(parts[".weight_packed"], bits)
    if (stated := parts.get(".weight_shape")) is not None and stated.tolist() != list(levels.shape):
        raise ValueError(f"weight_shape {stated.tolist()[:2]} of {tuple(levels.shape)} levels")
    scale = _by_row(parts[".weight_scale"], len(levels))
    zero = parts.get(".weight_zero_point")
    if zero is not None:
        zero = unpack(zero.mT, bits)[:, : len(levels)].mT.contiguous()  # words are filled up
    return integers(_NAME, bits, levels, scale, group, zero)


def _read_plain(parts: Mapping[str, Tensor], group: int) -> Integers:
    levels, zero = parts[".weight"], parts.get(".weight_zero_point")
    if levels.dtype != torch.int8:
        raise TypeError(f"levels of {levels.dtype}")
    if zero is not None and bool(zero.any()):
        raise refuse(_NAME, "8 bits with zero points")
    return integers(_NAME, 8, levels.view(torch.uint8) ^ 128, _by_row(parts[".weight_scale"], len(levels)), group)


def _by_row(scale: Tensor, rows: int) -> Tensor:
    return scale.reshape(1, 1).expand(rows, 1) if scale.numel() == 1 else scale
