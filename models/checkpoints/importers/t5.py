"""T5 in Hugging Face's form; version 1.1 and FLAN have a gated MLP and a head of their own.

Source: ``modeling_t5.py`` of transformers, its names and configuration.
"""

from models.checkpoints.importers.activations import ACTIVATION_NAMES
from models.checkpoints.importers.architecture import Architecture, ReferenceModel, Table, origin, same
from models.families.t5 import T5Config

_PROJECTIONS = {"query": "q", "key": "k", "value": "v", "output": "o"}
_SELF = "layer.0.SelfAttention"
_ENCODER = {
    **{f"attention.{ours}": f"{_SELF}.{theirs}" for ours, theirs in _PROJECTIONS.items()},
    "attention_residual.norm": "layer.0.layer_norm",
    "mlp_residual.norm": "layer.1.layer_norm",
}
_DECODER = {
    **{f"self_attention.{ours}": f"{_SELF}.{theirs}" for ours, theirs in _PROJECTIONS.items()},
    **{f"cross_attention.{ours}": f"layer.1.EncDecAttention.{theirs}" for ours, theirs in _PROJECTIONS.items()},
    "self_residual.norm": "layer.0.layer_norm",
    "cross_residual.norm": "layer.1.layer_norm",
    "mlp_residual.norm": "layer.2.layer_norm",
}
_PLAIN = {"mlp.expand": "wi", "mlp.contract": "wo"}
_GATED = {"mlp.gate": "wi_0", "mlp.expand": "wi_1", "mlp.contract": "wo"}
_GATE = "gated-"


def _origins(config: T5Config) -> Table:
    mlp = _GATED if config.gated_mlp else _PLAIN
    encoder = {**_ENCODER, **{ours: f"layer.1.DenseReluDense.{theirs}" for ours, theirs in mlp.items()}}
    decoder = {**_DECODER, **{ours: f"layer.2.DenseReluDense.{theirs}" for ours, theirs in mlp.items()}}
    names = ("shared", "encoder.embed_tokens", "decoder.embed_tokens")
    return {
        **same({f"encoder.{{}}.{ours}": f"encoder.block.{{}}.{theirs}" for ours, theirs in encoder.items()}),
        **same({f"decoder.{{}}.{ours}": f"decoder.block.{{}}.{theirs}" for ours, theirs in decoder.items()}),
        "encoder_bias": origin(f"encoder.block.0.{_SELF}.relative_attention_bias"),
        "decoder_bias": origin(f"decoder.block.0.{_SELF}.relative_attention_bias"),
        "encoder_end.norm": origin("encoder.final_layer_norm"),
        "decoder_end.norm": origin("decoder.final_layer_norm"),
        "embedding": origin(*names, "lm_head") if config.tied else origin(*names),
        # Version 5 of the library ties also those that do not scale: without a head of its own, the embedding is it.
        "head": origin("lm_head", fallback=names[:2]),
    }


def _config(reference: ReferenceModel) -> T5Config:
    fields = reference.fields
    fields.only("is_decoder", False)
    # Distances know no longest: what the model was trained with is but the default.
    trained = fields.size("n_positions", 512)
    length = trained if reference.asked_length is None else reference.asked_length
    choices = {name: (False, ours) for name, ours in ACTIVATION_NAMES.items()}
    choices |= {_GATE + name: (True, ours) for name, ours in ACTIVATION_NAMES.items()}
    # The one name that does not mean what it says: version 1.1 was trained with the approximation.
    choices |= {"gated-gelu": (True, "gelu_tanh")}
    said = fields.choice("feed_forward_proj", choices, "relu")
    # Where a file says these, too, it is they that count.
    activation = fields.choice("dense_act_fn", {**ACTIVATION_NAMES, "": said[1]}, "")
    gated = fields.flag("is_gated_act", said[0])
    layers = fields.size("num_layers", 6)
    decoder_layers = fields.size("num_decoder_layers", layers)
    return T5Config(
        vocabulary_size=fields.size("vocab_size", 32128),
        layers=layers,
        decoder_layers=None if decoder_layers == layers else decoder_layers,
        width=fields.size("d_model", 512),
        heads=fields.size("num_heads", 8),
        head_size=fields.size("d_kv", 64),
        mlp_width=fields.size("d_ff", 2048),
        activation=activation,
        gated_mlp=gated,
        # Newer files call all models tied, and say in the second field which of them are.
        tied=fields.flag("scale_decoder_outputs", fields.flag("tie_word_embeddings", True)),
        distance_buckets=fields.size("relative_attention_num_buckets", 32),
        longest_distance=fields.size("relative_attention_max_distance", 128),
        max_source_length=length,
        max_target_length=length,
        dropout=fields.number("dropout_rate", 0.1),
        norm_eps=fields.number("layer_norm_epsilon", 1e-6),
        pad_token=reference.token("pad_token_id"),
        start_token=reference.token("decoder_start_token_id"),
        end_token=reference.end_token(),
    )


T5 = Architecture(
    model_type="t5",
    classes=("T5ForConditionalGeneration", "T5WithLMHeadModel"),
    family="t5",
    config_from=_config,
    origins=_origins,
    ignored=(r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",),
)
