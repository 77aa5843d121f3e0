"""A GGUF file as a Hugging Face folder would have it: its configuration, and its tensors under their names there.

Llama's queries and keys stand in another order: llama.cpp turns neighbours, and transformers a head's two halves.
Factors of a rotation (``rope_freqs``) are those that transformers calls longrope's short ones, with nothing scaled.
Source: llama.cpp's convert_hf_to_gguf.py (``LlamaModel.permute``) and gguf-py's constants.py and tensor_mapping.py.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attendant.errors import ArtefactError
from models.checkpoints.importers.quantised.gguf_blocks import read_tensor
from models.checkpoints.importers.quantised.gguf_file import GgufFile
from models.checkpoints.importers.quantised.scheme import QuantisedTensors, refuse
from models.checkpoints.integers import Integers

_NAME = "GGUF"
_CLASSES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}
_OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_INSIDE = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_FACTORS = "rope_freqs.weight"
_SIZES = {
    "num_hidden_layers": "block_count",
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "max_position_embeddings": "context_length",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
}
_KNOWN = {
    *_SIZES.values(),
    *(
        "attention.key_length",
        "attention.value_length",
        "rope.freq_base",
        "rope.dimension_count",
        "rope.scaling.type",
        "rope.scaling.factor",
    ),
    *("vocab_size", "expert_count", "expert_used_count"),
}
_ENDS = ("eos_token_id", "eot_token_id", "eom_token_id")


def gguf_config(file: GgufFile) -> dict[str, Any]:
    """The ``config.json`` of the model.

    Raises:
        ConfigError: the architecture, or something that is said of it, is not supported.
        ArtefactError: the table of embeddings is missing, or no table.
    """
    architecture = file.values.get("general.architecture")
    if not isinstance(architecture, str) or architecture not in _CLASSES:
        raise refuse(_NAME, f"general.architecture {architecture!r}, none of {sorted(_CLASSES)}")
    prefix = f"{architecture}."
    given = {name.removeprefix(prefix): value for name, value in file.values.items() if name.startswith(prefix)}
    if unknown := sorted(name for name in given if name not in _KNOWN and given[name]):
        raise refuse(_NAME, f"{prefix}{unknown[0]} {given[unknown[0]]!r}, whose effect is not known")
    heads, width = given.get("attention.head_count"), given.get("embedding_length")
    usual = width // heads if isinstance(heads, int) and isinstance(width, int) and heads > 0 else None
    size = given.get("attention.key_length", usual)
    for name, supported in (
        ("attention.value_length", (None, size)),
        ("rope.dimension_count", (None, size)),
        ("expert_count", (None, 0)),
        ("rope.scaling.type", (None, "none", "linear")),
    ):
        if given.get(name) not in supported:
            raise refuse(_NAME, f"{prefix}{name} {given[name]!r}, not {supported[-1]!r}")
    table = file.tensors.get("token_embd.weight")
    if table is None or len(table.shape) != 2:
        raise ArtefactError("a table token_embd.weight", "none", "copy the file again")
    sizes = {theirs: given[name] for theirs, name in _SIZES.items() if name in given}
    return {
        "model_type": architecture,
        "architectures": [_CLASSES[architecture]],
        "vocab_size": table.shape[0],
        "tie_word_embeddings": "output.weight" not in file.tensors,
        "rope_parameters": _rope(file, given),
        "attention_bias": architecture != "qwen2" and "blk.0.attn_q.bias" in file.tensors,
        "head_dim": size,
        **sizes,
    }


def gguf_generation(file: GgufFile) -> dict[str, Any]:
    """The ``generation_config.json`` of the model: every token that ends an answer.

    Raises:
        ArtefactError: one is no whole number.
    """
    ends = {name: file.values[name] for name in (f"tokenizer.ggml.{end}" for end in _ENDS) if name in file.values}
    for name, end in ends.items():
        if type(end) is not int:
            raise ArtefactError(f"a whole number as {name} in {file.path}", repr(end)[:100], "convert the model again")
    return {"eos_token_id": sorted(set(ends.values()))}


def gguf_tensors(file: GgufFile, config: Mapping[str, Any]) -> QuantisedTensors:
    """The tensors of a file under transformers' names, and in its order.

    Args:
        file: with the tensors.
        config: as :func:`gguf_config` makes it.

    Raises:
        ArtefactError: a tensor is of no name that is known.
    """
    heads = {"attn_q": config.get("num_attention_heads"), "attn_k": config.get("num_key_value_heads")}
    shapes, sources = {}, dict[str, Callable[[], Tensor | Integers]]()
    for name, stored in file.tensors.items():
        if name == _FACTORS:
            continue
        module, _, last = name.rpartition(".")
        block = re.fullmatch(r"blk\.(\d+)\.(\w+)", module)
        part = block[2] if block else module
        known = _INSIDE if block else _OUTSIDE
        if part not in known or last not in ("weight", "bias"):
            raise ArtefactError("tensors whose names llama.cpp gives", repr(name)[:100], "this model is not supported")
        theirs = f"model.layers.{block[1]}.{known[part]}.{last}" if block else f"{known[part]}.{last}"
        shapes[theirs], sources[theirs] = stored.shape, partial(read_tensor, file, name)
        if config["model_type"] == "llama" and part in heads:
            sources[theirs] = partial(_read_halves, file, name, heads[part] or config.get("num_attention_heads"))
    return QuantisedTensors(shapes, sources)


def _read_halves(file: GgufFile, name: str, heads: Any) -> Tensor | Integers:
    """Rows of queries or keys, each head's even ones first."""
    rows = file.tensors[name].shape[0]
    if type(heads) is not int or heads < 1 or rows % (2 * heads):
        raise ArtefactError(f"{heads!r} heads of an even width in {name}", f"{rows} rows", "copy the file again")
    order = torch.arange(rows).view(heads, -1, 2).mT.flatten()
    found = read_tensor(file, name)
    return found[order] if isinstance(found, Tensor) else found.take(order)


def _rope(file: GgufFile, given: Mapping[str, Any]) -> dict[str, Any]:
    theta = given.get("rope.freq_base", 10000.0)
    if _FACTORS in file.tensors:
        factors = read_tensor(file, _FACTORS)
        if not isinstance(factors, Tensor) or given.get("rope.scaling.type") == "linear":
            raise refuse(_NAME, f"{_FACTORS} in integers, or with a linear scaling")
        listed = factors.float().flatten().tolist()
        length = given.get("context_length")
        return {
            "rope_type": "longrope",
            "rope_theta": theta,
            "short_factor": listed,
            "long_factor": listed,
            "attention_factor": 1.0,
            "factor": 1.0,
            "original_max_position_embeddings": length,
        }
    if given.get("rope.scaling.type") == "linear":
        return {"rope_type": "linear", "rope_theta": theta, "factor": given.get("rope.scaling.factor")}
    return {"rope_type": "default", "rope_theta": theta}


def gguf_tokenizer(file: GgufFile) -> dict[str, Any]:
    """What of ``tokenizer_config.json`` the file says itself: the chat template, and the tokens that it may name.

    Nothing where there is no tokenizer in the file.
    """
    tokens = file.values.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, list):
        return {}
    found: dict[str, Any] = {"vocab_size": len(tokens), "chat_template": file.values.get("tokenizer.chat_template")}
    for name, theirs in {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}.items():
        number = file.values.get(f"tokenizer.ggml.{theirs}_token_id")
        if type(number) is int and 0 <= number < len(tokens):
            found[f"{name}_token"] = tokens[number]
    return {name: value for name, value in found.items() if value is not None}
