import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel

from attendant.errors import ConfigError
from tests.models.agreement import both_precisions
from tests.models.checkpoints.importers.saved import VOCABULARY, assert_same, causal, imported, rewrite, saved

# A constant added to every key moves all scores of a query alike.
INDIFFERENT = ("attention.key.bias",)


def gpt2(folder, changes=(), **settings):
    sizes = {"vocab_size": VOCABULARY, "n_embd": 12, "n_layer": 2, "n_head": 3, "n_positions": 40}
    return saved(GPT2LMHeadModel(GPT2Config(**{**sizes, **settings})), folder, **dict(changes))


@pytest.mark.planted
@both_precisions
@pytest.mark.parametrize(
    "settings",
    [{}, {"tie_word_embeddings": False}, {"n_inner": 20, "activation_function": "gelu", "layer_norm_epsilon": 0.01}],
    ids=str,
)
def test_an_imported_gpt2_computes_what_transformers_does(settings, dtype, tmp_path):
    folder = gpt2(tmp_path / "theirs", **settings)
    checkpoint = imported(folder)
    assert_same(checkpoint, GPT2LMHeadModel, folder, causal(), dtype, INDIFFERENT)
    assert checkpoint.config.position_table == checkpoint.config.max_length == 40


@pytest.mark.planted
@pytest.mark.parametrize("name", ["gelu_fast", "gelu_accurate", "gelu_python"])
def test_activations_that_are_spelled_otherwise_are_the_same_numbers(name, tmp_path):
    folder = gpt2(tmp_path / "theirs", activation_function=name)
    assert_same(imported(folder), GPT2LMHeadModel, folder, causal(), indifferent=INDIFFERENT)


@pytest.mark.planted
def test_names_without_a_prefix_and_stored_masks_are_understood(tmp_path):
    folder = gpt2(tmp_path / "theirs")
    whole = {name.removeprefix("transformer."): one for name, one in load_file(folder / "model.safetensors").items()}
    masks = {f"h.{layer}.attn.bias": torch.ones(1, 1, 40, 40).tril() for layer in range(2)}
    save_file({**whole, **masks, "h.0.attn.masked_bias": torch.tensor(-1e4)}, folder / "model.safetensors")
    assert_same(imported(folder), GPT2LMHeadModel, folder, causal(), indifferent=INDIFFERENT)


@pytest.mark.planted
def test_a_shorter_model_keeps_the_whole_position_table(tmp_path):
    folder = gpt2(tmp_path / "theirs")
    checkpoint = imported(folder, max_length=16)
    assert (checkpoint.config.max_length, checkpoint.config.position_table) == (16, 40)
    assert_same(checkpoint, GPT2LMHeadModel, folder, causal(), indifferent=INDIFFERENT)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("activation_function", "mish"),
        ("scale_attn_weights", False),
        ("scale_attn_by_inverse_layer_idx", True),
        ("add_cross_attention", True),
    ],
)
def test_what_the_decoder_does_not_do_is_refused(field, value, tmp_path):
    folder = gpt2(tmp_path / "theirs")
    rewrite(folder / "config.json", **{field: value})
    with pytest.raises(ConfigError, match=field):
        imported(folder)
