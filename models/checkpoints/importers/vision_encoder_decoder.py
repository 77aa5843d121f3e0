"""A ViT before GPT-2 with cross-attention or before TrOCR's decoder, in Hugging Face's form: two configurations in one.

Source: ``modeling_vision_encoder_decoder.py``, ``modeling_trocr.py`` and ``modeling_gpt2.py`` of transformers, their
names and configurations. The outer configuration's ``tie_word_embeddings`` is about the two parts; whether the logits
use the embedding matrix, the decoder's says.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from attendant.config import require
from models.checkpoints.importers.activations import ACTIVATION_NAMES
from models.checkpoints.importers.architecture import Architecture, ReferenceModel, Table, first_rows, origin, same
from models.checkpoints.importers.fields import Fields
from models.checkpoints.importers.gpt2 import transpose, transpose_part
from models.checkpoints.importers.vit import MODULES, SPELLINGS, vit_sizes
from models.families.vision_encoder import VisionEncoderConfig
from models.families.vision_seq2seq import VisionSeq2SeqConfig

_OFFSET = 2  # TrOCR's table begins with two rows that nothing reads, as BART's does
_TOKENS = {"pad_token": "pad_token_id", "start_token": "decoder_start_token_id", "end_token": "eos_token_id"}
_ENCODER = {f"encoder.{ours}": origin(f"encoder.{one.names[0]}") for ours, one in MODULES.items() if ours != "head"}
_ENCODER["encoder.distillation_token"] = origin("encoder.embeddings.distillation_token")
_AROUND: Table = {**_ENCODER, "memory_projection": origin("enc_to_dec_proj")}

_GPT2_LAYER = "decoder.transformer.h.{}."
_GPT2: Table = {
    **same({"decoder_end": "decoder.transformer.ln_f"}),
    "decoder.{}.self_residual.norm": origin(f"{_GPT2_LAYER}ln_1"),
    "decoder.{}.cross_residual.norm": origin(f"{_GPT2_LAYER}ln_cross_attn"),
    "decoder.{}.mlp_residual.norm": origin(f"{_GPT2_LAYER}ln_2"),
    "decoder.{}.self_attention.query": origin(f"{_GPT2_LAYER}attn.c_attn", change=transpose_part(0, of=3)),
    "decoder.{}.self_attention.key": origin(f"{_GPT2_LAYER}attn.c_attn", change=transpose_part(1, of=3)),
    "decoder.{}.self_attention.value": origin(f"{_GPT2_LAYER}attn.c_attn", change=transpose_part(2, of=3)),
    "decoder.{}.self_attention.output": origin(f"{_GPT2_LAYER}attn.c_proj", change=transpose),
    "decoder.{}.cross_attention.query": origin(f"{_GPT2_LAYER}crossattention.q_attn", change=transpose),
    "decoder.{}.cross_attention.key": origin(f"{_GPT2_LAYER}crossattention.c_attn", change=transpose_part(0, of=2)),
    "decoder.{}.cross_attention.value": origin(f"{_GPT2_LAYER}crossattention.c_attn", change=transpose_part(1, of=2)),
    "decoder.{}.cross_attention.output": origin(f"{_GPT2_LAYER}crossattention.c_proj", change=transpose),
    "decoder.{}.mlp.expand": origin(f"{_GPT2_LAYER}mlp.c_fc", change=transpose),
    "decoder.{}.mlp.contract": origin(f"{_GPT2_LAYER}mlp.c_proj", change=transpose),
}

_TROCR_DECODER = "decoder.model.decoder."
_PROJECTIONS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
_TROCR_LAYER = {
    **{f"self_attention.{ours}": f"self_attn.{theirs}" for ours, theirs in _PROJECTIONS.items()},
    **{f"cross_attention.{ours}": f"encoder_attn.{theirs}" for ours, theirs in _PROJECTIONS.items()},
    "self_residual.norm": "self_attn_layer_norm",
    "cross_residual.norm": "encoder_attn_layer_norm",
    "mlp.expand": "fc1",
    "mlp.contract": "fc2",
    "mlp_residual.norm": "final_layer_norm",
}
_TROCR: Table = same(
    {
        "target_encoding.norm": f"{_TROCR_DECODER}layernorm_embedding",
        **{f"decoder.{{}}.{ours}": f"{_TROCR_DECODER}layers.{{}}.{theirs}" for ours, theirs in _TROCR_LAYER.items()},
    }
)


def _origins(config: VisionSeq2SeqConfig) -> Table:
    gpt2 = config.norm_order == "pre"
    if gpt2:
        table, positions = "decoder.transformer.wte", "decoder.transformer.wpe"
    else:
        table, positions = f"{_TROCR_DECODER}embed_tokens", f"{_TROCR_DECODER}embed_positions"
    head = "decoder.lm_head" if gpt2 else "decoder.output_projection"
    rows = first_rows(config.max_target_length + config.position_offset)
    embedding = {"embedding": origin(table, head)} if config.tied else same({"embedding": table, "head": head})
    return {
        **_AROUND,
        **(_GPT2 if gpt2 else _TROCR),
        **embedding,
        "target_encoding.positions": origin(positions, change=rows),
    }


def _config(reference: ReferenceModel) -> VisionSeq2SeqConfig:
    reference.fields.without_effect("tie_word_embeddings", "processor_class")
    encoder, decoder = reference.fields.part("encoder"), reference.fields.part("decoder")
    images = encoder.choice("model_type", _ENCODERS, "")(encoder)
    settings = decoder.choice("model_type", _DECODERS, "")(decoder, images.width)
    settings["max_target_length"] = reference.length(settings["max_target_length"])
    settings |= {ours: _token(reference, decoder, theirs) for ours, theirs in _TOKENS.items()}
    return VisionSeq2SeqConfig(encoder=images, **settings)


def _token(reference: ReferenceModel, decoder: Fields, name: str) -> int:
    # What both the generation's configuration and the outer one leave open, the decoder's says.
    asked = reference.generation.get(name)
    given = asked if asked is not None or reference.fields.get(name) is not None else decoder.get(name)
    return replace(reference, generation={name: given}).token(name)


def _vit(fields: Fields) -> VisionEncoderConfig:
    return VisionEncoderConfig(**vit_sizes(fields))


def _deit(fields: Fields) -> VisionEncoderConfig:
    return replace(_vit(fields), distilled=True)


def _gpt2_settings(fields: Fields, seen: int) -> dict[str, Any]:
    fields.only("scale_attn_weights", True)
    fields.only("scale_attn_by_inverse_layer_idx", False)
    crossed = fields.flag("add_cross_attention", False)
    require(crossed, "decoder.add_cross_attention: true in config.json", crossed, "this model is not supported")
    fields.without_effect("n_ctx", "reorder_and_upcast_attn", "is_decoder")
    width = fields.size("n_embd", 768)
    # Where it is given, nothing projects the encoder's output, and GPT-2 takes only vectors of its own width.
    fields.only("cross_attention_hidden_size", width if seen == width else None)
    return {
        "vocabulary_size": fields.size("vocab_size", 50257),
        "decoder_blocks": fields.size("n_layer", 12),
        "width": width,
        "heads": fields.size("n_head", 12),
        "mlp_width": fields.size("n_inner", 4 * width),
        "max_target_length": fields.size("n_positions", 1024),
        "norm_order": "pre",
        "activation": fields.choice("activation_function", ACTIVATION_NAMES, "gelu_new"),
        "positions": "learned",
        "scaled_embedding": False,
        "tied": fields.flag("tie_word_embeddings", True),
        "projected_memory": seen != width,
        "dropout": fields.number("resid_pdrop", 0.1),
        "norm_eps": fields.number("layer_norm_epsilon", 1e-5),
    }


def _trocr_settings(fields: Fields, seen: int) -> dict[str, Any]:
    fields.only("use_learned_position_embeddings", True)
    # Its decoder always looks at what the encoder saw.
    fields.without_effect("is_decoder", "add_cross_attention")
    width = fields.size("d_model", 1024)
    given = fields.get("cross_attention_hidden_size")
    require(given in (None, seen), f"decoder.cross_attention_hidden_size: {seen}, the encoder's hidden_size", given)
    return {
        "vocabulary_size": fields.size("vocab_size", 50265),
        "decoder_blocks": fields.size("decoder_layers", 12),
        "width": width,
        "heads": fields.size("decoder_attention_heads", 16),
        "mlp_width": fields.size("decoder_ffn_dim", 4096),
        "max_target_length": fields.size("max_position_embeddings", 512),
        "norm_order": "post",
        "activation": fields.choice("activation_function", ACTIVATION_NAMES, "gelu"),
        "positions": "learned",
        "position_offset": _OFFSET,
        "scaled_embedding": fields.flag("scale_embedding", False),
        "embedding_norm": fields.flag("layernorm_embedding", True),
        "tied": fields.flag("tie_word_embeddings", True),
        "projected_memory": given is None and seen != width,
        "dropout": fields.number("dropout", 0.1),
    }


_ENCODERS: dict[str, Callable[[Fields], VisionEncoderConfig]] = {"vit": _vit, "deit": _deit}
_DECODERS: dict[str, Callable[[Fields, int], dict[str, Any]]] = {"gpt2": _gpt2_settings, "trocr": _trocr_settings}

VISION_ENCODER_DECODER = Architecture(
    model_type="vision-encoder-decoder",
    classes=("VisionEncoderDecoderModel",),
    family="vision_seq2seq",
    config_from=_config,
    origins=_origins,
    spellings=SPELLINGS,
    ignored=(r"encoder\.pooler\..*", r"decoder\.transformer\.h\.\d+\.(attn|crossattention)\.(bias|masked_bias)"),
)
