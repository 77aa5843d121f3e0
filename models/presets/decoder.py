"""Presets of the decoder-only Transformer: the sizes of the published checkpoints.

``max_length`` is the length that the model was trained for, but at most ``LONGEST``: a cache is kept for all of it.
"""

from __future__ import annotations

from models.families.decoder import DecoderConfig
from models.layers.rope import RopeConfig
from models.presets.preset import Preset

LONGEST = 4096

_LLAMA_3_2_ROPE = RopeConfig(
    theta=500_000.0,
    scaling="llama3",
    factor=32.0,
    low_frequency_factor=1.0,
    high_frequency_factor=4.0,
    original_length=8192,
)

_PUBLISHED = {
    "gpt2": (
        "GPT-2",
        DecoderConfig(
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
        ),
    ),
    "llama-2-7b": (
        "Llama",
        DecoderConfig(
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
        ),
    ),
    "llama-3-8b": (
        "Llama",
        DecoderConfig(
            vocabulary_size=128256,
            layers=32,
            width=4096,
            heads=32,
            kv_heads=8,
            head_size=128,
            mlp_width=14336,
            max_length=LONGEST,
            rope=RopeConfig(theta=500_000.0),
            norm_eps=1e-5,
        ),
    ),
    "llama-3.2-1b": (
        "Llama",
        DecoderConfig(
            vocabulary_size=128256,
            layers=16,
            width=2048,
            heads=32,
            kv_heads=8,
            head_size=64,
            mlp_width=8192,
            max_length=LONGEST,
            rope=_LLAMA_3_2_ROPE,
            norm_eps=1e-5,
            tied=True,
        ),
    ),
    "tinyllama-1.1b": (
        "Llama",
        DecoderConfig(
            vocabulary_size=32000,
            layers=22,
            width=2048,
            heads=32,
            kv_heads=4,
            head_size=64,
            mlp_width=5632,
            max_length=2048,
            rope=RopeConfig(),
            norm_eps=1e-5,
        ),
    ),
    "mistral-7b": (
        "Mistral",
        DecoderConfig(
            vocabulary_size=32000,
            layers=32,
            width=4096,
            heads=32,
            kv_heads=8,
            head_size=128,
            mlp_width=14336,
            max_length=LONGEST,
            rope=RopeConfig(),
            norm_eps=1e-5,
            window=4096,
        ),
    ),
    "qwen2-0.5b": (
        "Qwen2",
        DecoderConfig(
            vocabulary_size=151936,
            layers=24,
            width=896,
            heads=14,
            kv_heads=2,
            head_size=64,
            mlp_width=4864,
            max_length=LONGEST,
            rope=RopeConfig(theta=1_000_000.0),
            qkv_bias=True,
            tied=True,
        ),
    ),
    "qwen3-0.6b": (
        "Qwen3",
        DecoderConfig(
            vocabulary_size=151936,
            layers=28,
            width=1024,
            heads=16,
            kv_heads=8,
            head_size=128,
            mlp_width=3072,
            max_length=LONGEST,
            rope=RopeConfig(theta=1_000_000.0),
            query_key_norm=True,
            tied=True,
        ),
    ),
}
_TINY = {
    "gpt2-tiny": (
        "GPT-2",
        DecoderConfig(
            vocabulary_size=31,
            layers=2,
            width=16,
            heads=2,
            kv_heads=2,
            head_size=8,
            mlp_width=32,
            max_length=12,
            position_table=12,
            norm="layer",
            norm_eps=1e-5,
            activation="gelu_tanh",
            gated_mlp=False,
            qkv_bias=True,
            output_bias=True,
            tied=True,
        ),
    ),
    "llama-tiny": (
        "Llama",
        DecoderConfig(
            vocabulary_size=31,
            layers=2,
            width=16,
            heads=4,
            kv_heads=2,
            head_size=4,
            mlp_width=24,
            max_length=12,
            rope=RopeConfig(),
        ),
    ),
    "mistral-tiny": (
        "Mistral",
        DecoderConfig(
            vocabulary_size=31,
            layers=2,
            width=16,
            heads=4,
            kv_heads=2,
            head_size=4,
            mlp_width=24,
            max_length=12,
            rope=RopeConfig(),
            window=4,
        ),
    ),
    "qwen2-tiny": (
        "Qwen2",
        DecoderConfig(
            vocabulary_size=31,
            layers=2,
            width=16,
            heads=4,
            kv_heads=2,
            head_size=4,
            mlp_width=24,
            max_length=12,
            rope=RopeConfig(theta=1_000_000.0),
            qkv_bias=True,
            tied=True,
        ),
    ),
    "qwen3-tiny": (
        "Qwen3",
        DecoderConfig(
            vocabulary_size=31,
            layers=2,
            width=16,
            heads=4,
            kv_heads=2,
            head_size=8,
            mlp_width=24,
            max_length=12,
            rope=RopeConfig(theta=1_000_000.0),
            query_key_norm=True,
        ),
    ),
}
PRESETS = {
    name: Preset(family="decoder", config=config, compared_with=f"transformers {oracle}")
    for name, (oracle, config) in {**_PUBLISHED, **_TINY}.items()
}
