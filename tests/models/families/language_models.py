"""Tiny language models of every kind, and transformers' own with our weights."""

import dataclasses

import torch
from torch import Tensor, nn
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    LlamaConfig,
    MistralConfig,
    PretrainedConfig,
    Qwen2Config,
    Qwen3Config,
)

from models.families.decoder import Decoder, DecoderConfig
from models.layers.rope import RopeConfig
from models.presets import PRESETS
from tests.models.agreement import randomised

LLAMA_3 = RopeConfig(
    scaling="llama3", factor=4.0, low_frequency_factor=1.0, high_frequency_factor=3.0, original_length=8
)
KINDS: dict[str, DecoderConfig] = {
    "gpt2": PRESETS["gpt2-tiny"].config,
    "llama": PRESETS["llama-tiny"].config,
    "llama, tied": dataclasses.replace(PRESETS["llama-tiny"].config, tied=True),
    "llama, linear rope": dataclasses.replace(
        PRESETS["llama-tiny"].config, rope=RopeConfig(scaling="linear", factor=2.5)
    ),
    "llama, llama 3 rope": dataclasses.replace(PRESETS["llama-tiny"].config, rope=LLAMA_3),
    "mistral": PRESETS["mistral-tiny"].config,
    "qwen2": PRESETS["qwen2-tiny"].config,
    "qwen2, window from layer 1": dataclasses.replace(PRESETS["qwen2-tiny"].config, window=3, first_window_layer=1),
    "qwen3": PRESETS["qwen3-tiny"].config,
}
LENGTH = 11
_BLOCK = {
    "attention.query": "self_attn.q_proj",
    "attention.key": "self_attn.k_proj",
    "attention.value": "self_attn.v_proj",
    "attention.output": "self_attn.o_proj",
    "attention.query_norm": "self_attn.q_norm",
    "attention.key_norm": "self_attn.k_norm",
    "attention_residual.norm": "input_layernorm",
    "mlp_residual.norm": "post_attention_layernorm",
    "mlp.gate": "mlp.gate_proj",
    "mlp.expand": "mlp.up_proj",
    "mlp.contract": "mlp.down_proj",
}


def language_model(kind: str, dtype: torch.dtype = torch.float64, **changes: object) -> Decoder:
    """A model of that kind with random weights."""
    torch.manual_seed(0)
    return randomised(Decoder(dataclasses.replace(KINDS[kind], **changes)), dtype)


def random_tokens(rows: int = 3, length: int = LENGTH) -> Tensor:
    """Sequences for a vocabulary of 31."""
    return torch.randint(0, 31, (rows, length), generator=torch.Generator().manual_seed(1))


def stranger_from_ours(kind: str, ours: Decoder) -> nn.Module:
    """transformers' model that must compute what ours computes, of the same element type."""
    theirs = AutoModelForCausalLM.from_config(_their_config(kind, ours.config))
    theirs = theirs.to(ours.embedding.weight.dtype).eval().requires_grad_(False)
    if kind == "gpt2":
        _fill_gpt2(ours, theirs)
    else:
        _fill_llama(ours, theirs)
    return theirs


def _fill_llama(ours: Decoder, theirs: nn.Module) -> None:
    theirs.model.embed_tokens.weight.copy_(ours.embedding.weight)
    _copy(ours.norm, theirs.model.norm)
    if ours.head is not None:
        _copy(ours.head, theirs.lm_head)
    for our_block, their_block in zip(ours.blocks, theirs.model.layers, strict=True):
        for our_name, their_name in _BLOCK.items():
            layer = our_block.get_submodule(our_name)
            if not isinstance(layer, nn.Identity):
                _copy(layer, their_block.get_submodule(their_name))


def _fill_gpt2(ours: Decoder, theirs: nn.Module) -> None:
    theirs.transformer.wte.weight.copy_(ours.embedding.weight)
    theirs.transformer.wpe.weight.copy_(ours.positions.weight)
    _copy(ours.norm, theirs.transformer.ln_f)
    for our_block, their_block in zip(ours.blocks, theirs.transformer.h, strict=True):
        attention = our_block.attention
        projections = attention.query, attention.key, attention.value
        # transformers' Conv1D holds its weight the other way round.
        their_block.attn.c_attn.weight.copy_(torch.cat([one.weight for one in projections]).T)
        their_block.attn.c_attn.bias.copy_(torch.cat([one.bias for one in projections]))
        _copy(our_block.attention_residual.norm, their_block.ln_1)
        _copy(our_block.mlp_residual.norm, their_block.ln_2)
        turned = {
            their_block.attn.c_proj: attention.output,
            their_block.mlp.c_fc: our_block.mlp.expand,
            their_block.mlp.c_proj: our_block.mlp.contract,
        }
        for their_layer, our_layer in turned.items():
            their_layer.weight.copy_(our_layer.weight.T)
            their_layer.bias.copy_(our_layer.bias)


def _copy(ours: nn.Module, theirs: nn.Module) -> None:
    theirs.weight.copy_(ours.weight)
    ours_bias, theirs_bias = getattr(ours, "bias", None), getattr(theirs, "bias", None)
    assert (ours_bias is None) == (theirs_bias is None)
    if ours_bias is not None:
        theirs_bias.copy_(ours_bias)


def _their_config(kind: str, config: DecoderConfig) -> PretrainedConfig:
    common = {"attn_implementation": "sdpa", "tie_word_embeddings": config.tied, "vocab_size": config.vocabulary_size}
    if kind == "gpt2":
        return GPT2Config(
            n_embd=config.width,
            n_layer=config.layers,
            n_head=config.heads,
            n_inner=config.mlp_width,
            n_positions=config.position_table,
            **common,
        )
    sizes = {
        "hidden_size": config.width,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_size,
        "intermediate_size": config.mlp_width,
        "max_position_embeddings": config.max_length,
        "rms_norm_eps": config.norm_eps,
        "rope_parameters": _their_rope(config.rope),
        **common,
    }
    family = kind.partition(",")[0]
    if family == "llama":
        return LlamaConfig(**sizes)
    if family == "mistral":
        return MistralConfig(sliding_window=config.window, **sizes)
    windows = {
        "use_sliding_window": config.window is not None,
        "sliding_window": config.window,
        "max_window_layers": config.first_window_layer,
    }
    return {"qwen2": Qwen2Config, "qwen3": Qwen3Config}[family](**sizes, **windows)


def _their_rope(rope: RopeConfig) -> dict[str, object]:
    plain = {"rope_theta": rope.theta, "rope_type": "default"}
    if rope.scaling == "none":
        return plain
    if rope.scaling == "linear":
        return {**plain, "rope_type": "linear", "factor": rope.factor}
    return {
        **plain,
        "rope_type": "llama3",
        "factor": rope.factor,
        "low_freq_factor": rope.low_frequency_factor,
        "high_freq_factor": rope.high_frequency_factor,
        "original_max_position_embeddings": rope.original_length,
    }
