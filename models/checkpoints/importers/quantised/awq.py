"""AWQ's folders: words along the output, in an order of its own.

    qweight [in, out/8] · qzeros [groups, out/8] · scales [groups, out]        W = s (q − z), 4 bits

Source: AutoAWQ 0.2, ``WQLinear_GEMM.from_linear`` and ``AwqConfig``; the words' order is ``order_map`` there.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from models.checkpoints.importers.fields import Fields
from models.checkpoints.importers.quantised.scheme import Scheme, Shape, group_size, integers, refuse, unpack
from models.checkpoints.integers import Integers

_NAME = "AWQ"
_OF_WORD = 8
_PLACES = [0, 4, 1, 5, 2, 6, 3, 7]
"""Column of eight → its place in a word."""
_WITHOUT_EFFECT = (
    *("quant_method", "zero_point", "modules_to_not_convert", "backend", "do_fuse"),
    *("fuse_max_seq_len", "modules_to_fuse", "exllama_config"),
)


def awq(values: Mapping[str, Any]) -> Scheme:
    """The scheme of a ``quantization_config``.

    Raises:
        ConfigError: it has another arithmetic than ours, or words in another order.
    """
    fields = Fields(values, "quantization_config.")
    fields.without_effect(*_WITHOUT_EFFECT)
    bits = fields.get("bits", fields.get("w_bit"))
    version = fields.get("version") or "gemm"
    if bits != 4:
        raise refuse(_NAME, f"bits {bits!r}")
    if not isinstance(version, str) or version.lower() != "gemm":
        raise refuse(_NAME, f"version {version!r}, whose words have another order than gemm's")
    group = group_size(_NAME, fields.get("group_size", fields.get("q_group_size")))
    fields.refuse_rest()
    parts = (".qweight", ".scales", ".qzeros")
    return Scheme(name=_NAME, parts=parts, shape=_shape, read=lambda read: _read(read, group))


def _shape(shapes: Mapping[str, Shape]) -> Shape:
    columns, words = shapes[".qweight"]
    return words * _OF_WORD, columns


def _read(parts: Mapping[str, Tensor], group: int) -> Integers:
    levels, zero = (
        unpack(parts[name], 4).view(len(parts[name]), -1, _OF_WORD)[..., _PLACES].flatten(-2).mT.contiguous()
        for name in (".qweight", ".qzeros")
    )
    return integers(_NAME, 4, levels, parts[".scales"].mT, group, zero)
