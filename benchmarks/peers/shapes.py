"""The shapes that are measured: transformers' classes and settings. Weights are random, the same for every peer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["decoder", "translator", "vision"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A model that every peer runs.

    Attributes:
        name: short, for tables.
        kind: what it is asked.
        model: transformers' class.
        settings: its configuration, where not the default.
        vocabulary: number of token ids; 0 for images.
        prompt: tokens of a prompt or of a source.
    """

    name: str
    kind: Kind
    model: str
    settings: dict[str, Any]
    vocabulary: int = 0
    prompt: int = 0


_LLAMA160 = {
    "vocab_size": 32000,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "intermediate_size": 3072,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_MARIAN = {
    "d_model": 512,
    "encoder_layers": 6,
    "decoder_layers": 6,
    "encoder_attention_heads": 8,
    "decoder_attention_heads": 8,
    "encoder_ffn_dim": 2048,
    "decoder_ffn_dim": 2048,
    "max_position_embeddings": 512,
    "activation_function": "swish",
    "scale_embedding": True,
}
SHAPES = {
    shape.name: shape
    for shape in (
        Shape(name="gpt2", kind="decoder", model="GPT2LMHeadModel", settings={}, vocabulary=50257, prompt=128),
        Shape(
            name="llama160", kind="decoder", model="LlamaForCausalLM", settings=_LLAMA160, vocabulary=32000, prompt=128
        ),
        Shape(name="marian", kind="translator", model="MarianMTModel", settings=_MARIAN, vocabulary=58101, prompt=64),
        Shape(name="vit-b-16", kind="vision", model="ViTForImageClassification", settings={"num_labels": 1000}),
        Shape(name="swin-t", kind="vision", model="SwinForImageClassification", settings={"num_labels": 1000}),
    )
}
