"""Presets of the decoder-only Transformer: the sizes of the published checkpoints, and a tiny twin of each kind.

``max_length`` is the length that the model was trained for, but at most ``LONGEST``: a cache is kept for all of it.
"""

from dataclasses import replace

from models.families.decoder import DecoderConfig
from models.layers.rope import RopeConfig
from models.presets.preset import Preset

LONGEST = 4096

_GPT_2 = DecoderConfig(
    vocabulary_size=50257,
    layers=12,
    width=768,
    heads=12,
    kv_heads=12,
    head_size=64,
    mlp_width=3072,
    max_length=1024,
    position_table=1024,
    norm="layer",
    norm_eps=1e-5,
    activation="gelu_tanh",
    gated_mlp=False,
    qkv_bias=True,
    output_bias=True,
    tied=True,
    dropout=0.1,
)
_LLAMA_2 = DecoderConfig(
    vocabulary_size=32000,
    layers=32,
    width=4096,
    heads=32,
    kv_heads=32,
    head_size=128,
    mlp_width=11008,
    max_length=LONGEST,
    rope=RopeConfig(),
    norm_eps=1e-5,
)
_LLAMA_3 = replace(_LLAMA_2, vocabulary_size=128256, kv_heads=8, mlp_width=14336, rope=RopeConfig(theta=500_000.0))
_LLAMA_3_2 = replace(
    _LLAMA_3,
    layers=16,
    width=2048,
    head_size=64,
    mlp_width=8192,
    rope=RopeConfig(
        theta=500_000.0,
        scaling="llama3",
        factor=32.0,
        low_frequency_factor=1.0,
        high_frequency_factor=4.0,
        original_length=8192,
    ),
    tied=True,
)
_TINYLLAMA = replace(_LLAMA_2, layers=22, width=2048, kv_heads=4, head_size=64, mlp_width=5632, max_length=2048)
_MISTRAL = replace(_LLAMA_2, kv_heads=8, mlp_width=14336, window=4096)
_QWEN_2 = replace(
    _LLAMA_2,
    vocabulary_size=151936,
    layers=24,
    width=896,
    heads=14,
    kv_heads=2,
    head_size=64,
    mlp_width=4864,
    rope=RopeConfig(theta=1_000_000.0),
    norm_eps=1e-6,
    qkv_bias=True,
    tied=True,
)
_QWEN_3 = replace(
    _QWEN_2,
    layers=28,
    width=1024,
    heads=16,
    kv_heads=8,
    head_size=128,
    mlp_width=3072,
    qkv_bias=False,
    query_key_norm=True,
)


def _twin(
    config: DecoderConfig,
    *,
    heads: int = 4,
    head_size: int = 4,
    position_table: int | None = None,
    window: int | None = None,
) -> DecoderConfig:
    return replace(
        config,
        vocabulary_size=31,
        layers=2,
        width=16,
        heads=heads,
        kv_heads=2,
        head_size=head_size,
        mlp_width=24,
        max_length=12,
        position_table=position_table,
        window=window,
        dropout=0.0,
    )


_CONFIGS = {
    "GPT-2": {
        "gpt2": _GPT_2,
        "gpt2-tiny": _twin(_GPT_2, heads=2, head_size=8, position_table=12),
    },
    "Llama": {
        "llama-2-7b": _LLAMA_2,
        "llama-3-8b": _LLAMA_3,
        "llama-3.2-1b": _LLAMA_3_2,
        "tinyllama-1.1b": _TINYLLAMA,
        "llama-tiny": _twin(_LLAMA_2),
    },
    "Mistral": {"mistral-7b": _MISTRAL, "mistral-tiny": _twin(_MISTRAL, window=4)},
    "Qwen2": {"qwen2-0.5b": _QWEN_2, "qwen2-tiny": _twin(_QWEN_2)},
    "Qwen3": {"qwen3-0.6b": _QWEN_3, "qwen3-tiny": _twin(_QWEN_3, head_size=8)},
}
PRESETS = {
    name: Preset(family="decoder", config=config, compared_with=f"transformers {oracle}")
    for oracle, configs in _CONFIGS.items()
    for name, config in configs.items()
}
