"""Qwen2 and Qwen3 in Hugging Face's form: Llama's tensors, and biases (Qwen2) or normalised heads (Qwen3).

Source: ``modeling_qwen2.py`` and ``modeling_qwen3.py`` of transformers, their names and configurations.
"""

from models.checkpoints.importers.architecture import Architecture, ReferenceModel
from models.checkpoints.importers.llama import IGNORED, gated_decoder, layers_of, origins
from models.checkpoints.importers.window import window_from
from models.families.decoder import DecoderConfig

_DEFAULTS = {
    "vocab_size": 151936,
    "intermediate_size": 22016,
    "max_position_embeddings": 32768,
    "num_key_value_heads": 32,
}


def _qwen2(reference: ReferenceModel) -> DecoderConfig:
    window = window_from(reference.fields, layers_of(reference.fields))
    return gated_decoder(reference, _DEFAULTS, qkv_bias=True, **window)


def _qwen3(reference: ReferenceModel) -> DecoderConfig:
    window = window_from(reference.fields, layers_of(reference.fields))
    biases = reference.fields.flag("attention_bias", False)
    defaults = {**_DEFAULTS, "head_dim": 128}
    return gated_decoder(reference, defaults, qkv_bias=biases, output_bias=biases, query_key_norm=True, **window)


QWEN2 = Architecture(
    model_type="qwen2",
    classes=("Qwen2ForCausalLM", "Qwen2Model"),
    family="decoder",
    config_from=_qwen2,
    origins=origins,
    prefix="model.",
    ignored=IGNORED,
)
QWEN3 = Architecture(
    model_type="qwen3",
    classes=("Qwen3ForCausalLM", "Qwen3Model"),
    family="decoder",
    config_from=_qwen3,
    origins=origins,
    prefix="model.",
    ignored=IGNORED,
)
