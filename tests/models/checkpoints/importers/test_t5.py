import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import T5Config, T5ForConditionalGeneration

from attendant.errors import ArtefactError, ConfigError
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
    "d_kv": 5,
    "d_ff": 20,
    "num_layers": 2,
    "num_heads": 3,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 10,
    "decoder_start_token_id": 0,
}
V1_1 = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "num_decoder_layers": 1}


def t5(folder, own_head=False, **settings):
    torch.manual_seed(0)
    saved(T5ForConditionalGeneration(T5Config(**{**SIZES, **settings})), folder)
    if own_head:  # as the published checkpoints of version 1.1 have it
        path = folder / "model.safetensors"
        save_file({**load_file(path), "lm_head.weight": 0.2 * torch.randn(VOCABULARY, 12)}, path)
    return folder


# In float32 alone: whatever the model's type, theirs takes the mean of squares in float32.
@pytest.mark.planted
@pytest.mark.parametrize("settings", [{}, {"feed_forward_proj": "gated-quick_gelu", "num_decoder_layers": 3}], ids=str)
def test_an_imported_t5_computes_what_transformers_does(settings, tmp_path):
    folder = t5(tmp_path / "theirs", **settings)
    checkpoint = imported(folder)
    assert_same(checkpoint, T5ForConditionalGeneration, folder, translating())
    config = checkpoint.config
    assert (config.pad_token, config.start_token, config.end_token, config.tied) == (0, 0, 1, True)
    assert (config.max_source_length, config.max_target_length) == (512, 512)


@pytest.mark.planted
@pytest.mark.parametrize("own_head", [True, False], ids=["published", "saved by transformers 5"])
def test_an_imported_t5_of_version_1_1_computes_what_transformers_does(own_head, tmp_path):
    folder = t5(tmp_path / "theirs", own_head=own_head, **V1_1)
    checkpoint = imported(folder)
    assert not checkpoint.config.tied
    assert checkpoint.config.activation == "gelu_tanh"
    assert_same(checkpoint, T5ForConditionalGeneration, folder, translating())


def test_the_older_form_of_version_1_1_says_it_with_the_tie(tmp_path):
    folder = t5(tmp_path / "theirs", own_head=True, **V1_1)
    new = imported(folder).config
    rewrite(folder / "config.json", scale_decoder_outputs=GONE, tie_word_embeddings=False)
    assert imported(folder).config == new


@pytest.mark.planted
def test_an_activation_that_is_written_out_counts_more_than_its_abbreviation(tmp_path):
    folder = t5(tmp_path / "theirs", own_head=True, **V1_1)
    rewrite(folder / "config.json", dense_act_fn="gelu")
    checkpoint = imported(folder)
    assert checkpoint.config.activation == "gelu"
    assert_same(checkpoint, T5ForConditionalGeneration, folder, translating())


def test_a_head_of_its_own_in_a_model_that_says_it_is_tied_is_refused(tmp_path):
    folder = t5(tmp_path / "theirs", own_head=True, **V1_1)
    rewrite(folder / "config.json", scale_decoder_outputs=True)
    with pytest.raises(ArtefactError, match=r"the same values in shared\.weight and lm_head\.weight"):
        imported(folder)


def test_distances_set_no_limit_to_the_length(tmp_path):
    assert imported(t5(tmp_path / "theirs"), max_length=700).config.max_source_length == 700


@pytest.mark.parametrize("fields", [{"feed_forward_proj": "gated-mish"}, {"is_decoder": True}], ids=str)
def test_what_the_family_does_not_do_is_refused(fields, tmp_path):
    folder = t5(tmp_path / "theirs")
    rewrite(folder / "config.json", **fields)
    with pytest.raises(ConfigError, match=next(iter(fields))):
        imported(folder)
