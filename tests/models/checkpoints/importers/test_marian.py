import pytest
from safetensors.torch import load_file, save_file
from transformers import MarianConfig, MarianMTModel

from attendant.errors import ConfigError
from serving.engine.sampling.token_rules import TokenRules
from tests.models.agreement import both_precisions
from tests.models.checkpoints.importers.saved import (
    GONE,
    VOCABULARY,
    assert_same,
    imported,
    rewrite,
    saved,
    translating,
)

SIZES = {
    "vocab_size": VOCABULARY,
    "d_model": 12,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 20,
    "decoder_ffn_dim": 20,
    "max_position_embeddings": 24,
    "pad_token_id": 3,
    "eos_token_id": 1,
    "forced_eos_token_id": 1,
    "decoder_start_token_id": 3,
}
INDIFFERENT = ("attention.key.bias",)


def marian(folder, **settings):
    return saved(MarianMTModel(MarianConfig(**{**SIZES, **settings})), folder)


@pytest.mark.planted
@both_precisions
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"activation_function": "swish", "scale_embedding": True},
        {"encoder_layers": 1, "activation_function": "relu"},
        {"tie_word_embeddings": False},
    ],
    ids=str,
)
def test_an_imported_marian_computes_what_transformers_does(settings, dtype, tmp_path):
    folder = marian(tmp_path / "theirs", **settings)
    checkpoint = imported(folder)
    assert_same(checkpoint, MarianMTModel, folder, translating(), dtype, INDIFFERENT)
    config = checkpoint.config
    assert (config.pad_token, config.start_token, config.end_token) == (3, 3, 1)
    assert (config.max_source_length, config.max_target_length) == (24, 24)


def test_every_token_that_ends_a_translation_is_kept(tmp_path):
    folder = marian(tmp_path / "theirs")
    rewrite(folder / "generation_config.json", eos_token_id=[5, 1])
    checkpoint = imported(folder)
    assert (checkpoint.config.end_token, checkpoint.details["end_tokens"]) == (5, [5, 1])
    assert TokenRules.of(checkpoint.serving_details()).end == {1, 5}
    rewrite(folder / "generation_config.json", eos_token_id=[5, "</s>"])
    with pytest.raises(ConfigError, match="eos_token_id to be token ids"):
        imported(folder)


def test_the_bias_of_the_logits_is_imported(tmp_path):
    folder = marian(tmp_path / "theirs")
    bias = load_file(folder / "model.safetensors")["final_logits_bias"]
    assert bias.abs().max() > 0.1
    assert imported(folder).model.logits_bias.tolist() == bias.flatten().tolist()


@pytest.mark.planted
def test_copies_of_the_embedding_and_stored_sinusoids_are_understood(tmp_path):
    folder = marian(tmp_path / "theirs")
    path = folder / "model.safetensors"
    tensors = load_file(path)
    positions = MarianMTModel.from_pretrained(folder).model.encoder.embed_positions.weight.detach()
    copies = {
        f"model.{side}.embed_tokens.weight": tensors["model.shared.weight"].clone() for side in ("encoder", "decoder")
    }
    tables = {f"model.{side}.embed_positions.weight": positions.clone() for side in ("encoder", "decoder")}
    save_file({**tensors, **copies, **tables, "lm_head.weight": tensors["model.shared.weight"].clone()}, path)
    assert_same(imported(folder), MarianMTModel, folder, translating(), indifferent=INDIFFERENT)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"share_encoder_decoder_embeddings": False}, "share_encoder_decoder_embeddings"),
        ({"decoder_vocab_size": 70}, "one vocabulary"),
        ({"normalize_before": True}, "normalize_before"),
        ({"normalize_embedding": True}, "normalize_embedding"),
        ({"static_position_embeddings": False}, "static_position_embeddings"),
        ({"add_final_layer_norm": True}, "add_final_layer_norm"),
        ({"decoder_ffn_dim": 24}, "one ffn_dim for encoder and decoder"),
        ({"decoder_attention_heads": 4}, "one attention_heads for encoder and decoder"),
    ],
    ids=str,
)
def test_what_the_family_does_not_do_is_refused(fields, expected, tmp_path):
    folder = marian(tmp_path / "theirs")
    rewrite(folder / "config.json", **fields)
    with pytest.raises(ConfigError, match=expected):
        imported(folder)


def test_a_token_id_that_is_nowhere_is_asked_for_by_name(tmp_path):
    folder = marian(tmp_path / "theirs")
    for name in ("config.json", "generation_config.json"):
        rewrite(folder / name, pad_token_id=GONE)
    with pytest.raises(ConfigError, match="one token id as pad_token_id"):
        imported(folder)
