"""GPTQ's folders: rows of words along the input, zero points along the output.

    qweight [in·b/32, out] · qzeros [groups, out·b/32] · scales [groups, out] · g_idx [in]        W = s (q − z)

Of the first format (``checkpoint_format: gptq``) qzeros hold z − 1, in which 15 stands for 16 to some programs and for
0 to others; ``gptq_v2`` holds z.
Source: AutoGPTQ 0.7 and GPTQModel, ``qlinear``'s ``pack`` and ``BaseQuantizeConfig``.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from models.checkpoints.importers.fields import Fields
from models.checkpoints.importers.quantised.scheme import (
    Scheme,
    Shape,
    group_size,
    integers,
    refuse,
    unpack,
)
from models.checkpoints.integers import Bits, Integers

_NAME = "GPTQ"
_WITHOUT_EFFECT = (
    *("quant_method", "desc_act", "static_groups", "true_sequential", "sym", "lm_head", "mse", "meta", "version"),
    *("model_name_or_path", "model_file_base_name", "damp_percent", "damp_auto_increment", "dataset", "tokenizer"),
    *("batch_size", "pad_token_id", "model_seqlen", "quantizer", "quant_path", "cache_block_outputs"),
    *("use_exllama", "disable_exllama", "exllama_config", "use_cuda_fp16", "max_input_length", "backend"),
    *("block_name_to_quantize", "module_name_preceding_first_block", "modules_in_block_to_quantize"),
)
"""How it was quantised and how others run it: what was not quantised so has no words in the file."""


def gptq(values: Mapping[str, Any]) -> Scheme:
    """The scheme of a ``quantization_config``.

    Raises:
        ConfigError: it has another arithmetic than ours.
    """
    fields = Fields(values, "quantization_config.")
    fields.without_effect(*_WITHOUT_EFFECT)
    bits, form = fields.get("bits"), fields.get("checkpoint_format") or "gptq"
    if type(bits) is not int or bits not in (4, 8):
        raise refuse(_NAME, f"bits {bits!r}")
    if form not in ("gptq", "gptq_v2"):
        raise refuse(_NAME, f"checkpoint_format {form!r}")
    group = group_size(_NAME, fields.get("group_size"))
    fields.only("pack_dtype", "int32")
    fields.refuse_rest()
    of_word = 32 // bits

    def shape(shapes: Mapping[str, Shape]) -> Shape:
        words, rows = shapes[".qweight"]
        return rows, words * of_word

    return Scheme(
        name=_NAME,
        parts=(".qweight", ".scales", ".qzeros", ".g_idx"),
        shape=shape,
        order=".g_idx",
        group=group,
        read=lambda parts: _read(parts, 4 if bits == 4 else 8, group, 1 if form == "gptq" else 0),
    )


def _read(parts: Mapping[str, Tensor], bits: Bits, group: int, less: int) -> Integers:
    levels, zero, scale = unpack(parts[".qweight"].mT, bits), unpack(parts[".qzeros"], bits).mT, parts[".scales"].mT
    if less and bool((zero == 2**bits - 1).any()):
        raise refuse(_NAME, f"a zero point of {2**bits}, which the first format holds as it holds 0")
    return integers(_NAME, bits, levels.contiguous(), scale, group, (zero + less).contiguous())
