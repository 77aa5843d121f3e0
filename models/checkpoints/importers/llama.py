"""Llama and Mistral in Hugging Face's form: the same tensors; Mistral has a sliding window, Llama may have biases.

Source: ``modeling_llama.py`` and ``modeling_mistral.py`` of transformers, their names and configurations.
"""

from typing import Any

from models.checkpoints.importers.activations import ACTIVATION_NAMES
from models.checkpoints.importers.architecture import Architecture, ReferenceModel, Table, origin, same
from models.checkpoints.importers.fields import Fields
from models.checkpoints.importers.rope import rope_from
from models.families.decoder import DecoderConfig

_BLOCKS = same(
    {
        "blocks.{}.attention.query": "layers.{}.self_attn.q_proj",
        "blocks.{}.attention.key": "layers.{}.self_attn.k_proj",
        "blocks.{}.attention.value": "layers.{}.self_attn.v_proj",
        "blocks.{}.attention.output": "layers.{}.self_attn.o_proj",
        "blocks.{}.attention.query_norm": "layers.{}.self_attn.q_norm",
        "blocks.{}.attention.key_norm": "layers.{}.self_attn.k_norm",
        "blocks.{}.mlp.gate": "layers.{}.mlp.gate_proj",
        "blocks.{}.mlp.expand": "layers.{}.mlp.up_proj",
        "blocks.{}.mlp.contract": "layers.{}.mlp.down_proj",
        "blocks.{}.attention_residual.norm": "layers.{}.input_layernorm",
        "blocks.{}.mlp_residual.norm": "layers.{}.post_attention_layernorm",
        "norm": "norm",
    }
)
IGNORED = (r"layers\.\d+\.self_attn\.rotary_emb\.inv_freq", r"rotary_emb\.inv_freq")


def origins(config: DecoderConfig) -> Table:
    """Our modules and theirs; where the embedding is the head, too, a file may hold it under either name."""
    if config.tied:
        return {**_BLOCKS, "embedding": origin("embed_tokens", "lm_head")}
    return {**_BLOCKS, "embedding": origin("embed_tokens"), "head": origin("lm_head")}


def gated_decoder(reference: ReferenceModel, defaults: dict[str, int], **settings: Any) -> DecoderConfig:
    """What Llama, Mistral and Qwen say with the same fields.

    Args:
        reference: the folder.
        defaults: of the sizes that ``config.json`` may leave out.
        settings: the rest of the configuration.
    """
    fields = reference.fields
    width, heads = fields.size("hidden_size", 4096), fields.size("num_attention_heads", 32)
    trained = fields.size("max_position_embeddings", defaults["max_position_embeddings"])
    length = reference.length(trained)
    head_size = fields.size("head_dim", defaults.get("head_dim", width // heads))
    groups = defaults.get("num_key_value_heads", heads)
    return DecoderConfig(
        vocabulary_size=fields.size("vocab_size", defaults["vocab_size"]),
        layers=layers_of(fields),
        width=width,
        heads=heads,
        kv_heads=fields.size("num_key_value_heads", heads if fields.is_null("num_key_value_heads") else groups),
        head_size=head_size,
        mlp_width=fields.size("intermediate_size", defaults["intermediate_size"]),
        max_length=length,
        rope=rope_from(reference, trained, length, head_size),
        norm_eps=fields.number("rms_norm_eps", 1e-6),
        activation=fields.choice("hidden_act", ACTIVATION_NAMES, "silu"),
        tied=fields.flag("tie_word_embeddings", False),
        **settings,
    )


def layers_of(fields: Fields) -> int:
    """How many blocks there are."""
    return fields.size("num_hidden_layers", 32)


def _llama(reference: ReferenceModel) -> DecoderConfig:
    biases = reference.fields.flag("attention_bias", False)
    mlp_bias = reference.fields.flag("mlp_bias", False)
    defaults = {"vocab_size": 32000, "intermediate_size": 11008, "max_position_embeddings": 2048}
    return gated_decoder(reference, defaults, qkv_bias=biases, output_bias=biases, mlp_bias=mlp_bias)


def _mistral(reference: ReferenceModel) -> DecoderConfig:
    window = reference.fields.get("sliding_window", 4096)
    defaults = {"vocab_size": 32000, "intermediate_size": 14336, "max_position_embeddings": 131072}
    return gated_decoder(reference, {**defaults, "num_key_value_heads": 8}, window=window)


LLAMA = Architecture(
    model_type="llama",
    classes=("LlamaForCausalLM", "LlamaModel", "LLaMAForCausalLM"),
    family="decoder",
    config_from=_llama,
    origins=origins,
    prefix="model.",
    ignored=IGNORED,
)
MISTRAL = Architecture(
    model_type="mistral",
    classes=("MistralForCausalLM", "MistralModel"),
    family="decoder",
    config_from=_mistral,
    origins=origins,
    prefix="model.",
    ignored=IGNORED,
)
