import json

import pytest
import torch
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

from attendant.errors import ConfigError
from models.checkpoints.importers.importing import import_checkpoint
from tests.models.checkpoints.importers.saved import (
    GONE,
    VOCABULARY,
    assert_same,
    causal,
    imported,
    rewrite,
    saved,
    tokens,
)

SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 40,
}
LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16}
ROPES = {
    "default": {"rope_theta": 100.0},
    "linear": {"rope_theta": 100.0, "factor": 4.0},
    "dynamic": {"rope_theta": 100.0, "factor": 4.0},
    "llama3": {"rope_theta": 100.0, "factor": 8.0, **LLAMA3},
    "yarn": {"rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 10},
    "longrope": {
        "rope_theta": 100.0,
        "factor": 4.0,
        "original_max_position_embeddings": 39,
        "short_factor": [1.5, 2.0],
        "long_factor": [3.0, 4.0],
    },
    "proportional": {"rope_theta": 100.0, "partial_rotary_factor": 0.5, "factor": 2.0},
}


def llama(folder, changes=(), **settings):
    return saved(LlamaForCausalLM(LlamaConfig(**{**SIZES, **settings})), folder, **dict(changes))


def mistral(folder, **settings):
    return saved(MistralForCausalLM(MistralConfig(**{**SIZES, **settings})), folder)


@pytest.mark.planted
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"tie_word_embeddings": True},
        {"attention_bias": True},
        {"mlp_bias": True},
        {"head_dim": 6, "num_key_value_heads": 4, "rms_norm_eps": 0.01, "hidden_act": "gelu_pytorch_tanh"},
    ],
    ids=str,
)
def test_an_imported_llama_computes_what_transformers_does(settings, tmp_path):
    folder = llama(tmp_path / "theirs", **settings)
    assert_same(imported(folder), LlamaForCausalLM, folder, causal())


@pytest.mark.planted
@pytest.mark.parametrize("rope", ROPES)
def test_every_supported_rope_type_is_transformers_own(rope, tmp_path):
    folder = llama(tmp_path / "theirs", rope_parameters={"rope_type": rope, **ROPES[rope]})
    checkpoint = imported(folder)
    assert_same(checkpoint, LlamaForCausalLM, folder, causal(39))


@pytest.mark.planted
@pytest.mark.parametrize(
    "options",
    [
        {"attention_factor": 1.3},
        {"mscale": 0.7, "mscale_all_dim": 1.1},
        {"mscale": 0.7},
        {"truncate": False},
        {"beta_fast": 6.0, "beta_slow": 0.5},
        {"factor": None},
        {"original_max_position_embeddings": 40, "factor": 1.0},
        {"factor": 0.5},
        {"truncate": None},
        {"beta_fast": 0.5, "beta_slow": 6.0},
        {"beta_fast": None, "beta_slow": 0, "mscale": None},
        {"rope_theta": 0.5},
    ],
    ids=str,
)
def test_every_option_of_yarn_is_transformers_own(options, tmp_path):
    rope = {"rope_type": "yarn", **ROPES["yarn"], **options}
    folder = llama(tmp_path / "theirs", head_dim=16, rope_parameters=rope)
    assert_same(imported(folder), LlamaForCausalLM, folder, causal(40))


@pytest.mark.planted
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("linear", {"factor": 0.5}),
        ("linear", {"factor": 3, "rope_theta": 1}),
        ("proportional", {"partial_rotary_factor": 0.0, "factor": 1.0}),
        ("proportional", {"partial_rotary_factor": 0.3, "factor": 0.7}),
        ("proportional", {"partial_rotary_factor": 1}),
        ("longrope", {"short_factor": [2.5], "long_factor": [4]}),  # one for all pairs, as it broadcasts
        ("longrope", {"factor": None}),
        ("longrope", {"attention_factor": 1.7, "original_max_position_embeddings": 1000}),
        ("default", {"partial_rotary_factor": 0.5}),  # which transformers' Llama does not read
    ],
    ids=str,
)
def test_odd_settings_of_other_kinds_are_transformers_own(kind, options, tmp_path):
    rope = {"rope_type": kind, **ROPES[kind], **options}
    folder = llama(tmp_path / "theirs", rope_parameters=rope)
    assert_same(imported(folder), LlamaForCausalLM, folder, causal(39))


def test_a_factor_that_is_not_read_is_named(tmp_path):
    folder = llama(tmp_path / "theirs", rope_parameters={"rope_type": "default", "partial_rotary_factor": 0.5})
    (note,) = import_checkpoint(folder, tmp_path / "ours").notes
    assert note.startswith("partial_rotary_factor 0.5 is not read: transformers rotates the heads")


LONG = {"rope_type": "longrope", **ROPES["longrope"], "original_max_position_embeddings": 9}


@pytest.mark.planted
@pytest.mark.parametrize("prompt_length", [3, 8, 9])
def test_longrope_beyond_its_first_length_is_what_transformers_says_with_its_cache(prompt_length, tmp_path):
    folder = llama(tmp_path / "theirs", rope_parameters=LONG)
    checkpoint = imported(folder)
    assert checkpoint.config.max_length == 40
    theirs = LlamaForCausalLM.from_pretrained(folder).eval()
    answered = theirs.generate(
        tokens(1, prompt_length),
        max_new_tokens=20,
        do_sample=False,
        eos_token_id=-1,
        output_logits=True,
        return_dict_in_generate=True,
    )
    found = checkpoint.model(answered.sequences)[0, prompt_length - 1 : -1]
    assert torch.equal(found.argmax(-1), answered.sequences[0, prompt_length:])
    torch.testing.assert_close(found, torch.cat(answered.logits), atol=2e-5, rtol=0)


def test_a_prompt_beyond_it_is_refused_by_name_as_all_of_its_angles_would_be_others(tmp_path):
    folder = llama(tmp_path / "theirs", rope_parameters=LONG)
    checkpoint = imported(folder)
    assert checkpoint.serving_details()["max_prompt_length"] == 9
    (note,) = import_checkpoint(folder, tmp_path / "ours").notes
    assert note == "longrope: prompts of at most 9 tokens, and answers up to 40 with them"
    assert "max_prompt_length" not in imported(folder, max_length=9).serving_details()


@pytest.mark.parametrize("key", ["type", "rope_type"])
@pytest.mark.parametrize("rope", ROPES)
def test_the_older_fields_say_the_same_rope(rope, key, tmp_path):
    folder = llama(tmp_path / "theirs", rope_parameters={"rope_type": rope, **ROPES[rope]})
    new = imported(folder).config
    scaling = {key: rope, **{name: value for name, value in ROPES[rope].items() if name != "rope_theta"}}
    rewrite(folder / "config.json", rope_parameters=GONE, rope_theta=100.0, rope_scaling=scaling)
    assert imported(folder).config == new
    assert new.rope.theta == 100.0


def test_a_plain_rope_theta_needs_no_scaling(tmp_path):
    folder = llama(tmp_path / "theirs")
    rewrite(folder / "config.json", rope_parameters=GONE, rope_theta=500.0)
    assert imported(folder).config.rope.theta == 500.0
    rewrite(folder / "config.json", rope_theta=GONE)
    assert imported(folder).config.rope.theta == 10000.0


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"rope_scaling": {"type": "proportional", "partial_rotary_factor": 1.5}}, "1.5"),
        ({"rope_scaling": {"rope_type": "longrope", "factor": 4.0}}, "None"),
        ({"rope_scaling": {"rope_type": "longrope", "factor": 4.0, "short_factor": [1.0]}}, "None"),
        (
            {"rope_scaling": {"rope_type": "longrope", "factor": 4.0, "short_factor": [1] * 3, "long_factor": [1] * 3}},
            "3",
        ),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0, "truncate": 3}}, "3"),
        ({"rope_theta": "x", "rope_parameters": GONE}, "'x'"),
        ({"rope_theta": 10**400, "rope_parameters": GONE}, "1000"),
        ({"rope_scaling": {"type": ["linear"], "factor": 4.0}}, "linear"),
        (
            {"rope_scaling": {"type": "linear", "factor": 2.0, "partial_rotary_factor": 0.5}},
            "partial_rotary_factor 0.5",
        ),
        (
            {"rope_scaling": {"type": "linear", "factor": 2.0}, "partial_rotary_factor": 0.5},
            "partial_rotary_factor 0.5",
        ),
        ({"rope_scaling": {"type": "linear"}}, "None"),
        ({"rope_scaling": {"type": "default", "mrope_section": [1, 1]}}, "mrope_section"),
        ({"rope_parameters": {"full_attention": {"rope_type": "default"}}}, "full_attention"),
        ({"rope_scaling": {"type": "linear", "factor": 0}}, "0"),
        ({"mlp_bias": 1}, "1"),
        ({"hidden_act": "relu2"}, "'relu2'"),
    ],
    ids=str,
)
def test_what_the_decoder_does_not_do_is_refused(fields, found, tmp_path):
    folder = llama(tmp_path / "theirs")
    rewrite(folder / "config.json", **fields)
    with pytest.raises(ConfigError) as caught:
        imported(folder)
    assert found in caught.value.found


def test_a_refused_rope_type_names_those_that_are_supported(tmp_path):
    folder = llama(tmp_path / "theirs", changes={"rope_scaling": {"type": "other", "factor": 4.0}})
    with pytest.raises(ConfigError, match=r"default.*dynamic.*linear.*llama3.*longrope.*yarn"):
        imported(folder)


@pytest.mark.planted
@pytest.mark.parametrize("window", [4, None])
def test_an_imported_mistral_computes_what_transformers_does_beyond_its_window(window, tmp_path):
    folder = mistral(tmp_path / "theirs", sliding_window=window)
    # A field that says null is written as such: absent it would mean 4096.
    assert json.loads((folder / "config.json").read_text()).get("sliding_window", 0) == window
    checkpoint = imported(folder)
    assert checkpoint.config.window == window
    assert_same(checkpoint, MistralForCausalLM, folder, causal(12))


@pytest.mark.planted
def test_a_window_one_position_wider_would_be_noticed(tmp_path):
    folder = mistral(tmp_path / "theirs", sliding_window=4)
    checkpoint = imported(folder)
    for block in checkpoint.model.blocks:
        block.window = 5
    with pytest.raises(AssertionError):
        assert_same(checkpoint, MistralForCausalLM, folder, causal(12))


@pytest.mark.planted
def test_a_model_in_half_precision_keeps_its_type_on_disk_and_computes_in_float32(tmp_path):
    theirs = LlamaForCausalLM(LlamaConfig(**SIZES)).to(torch.bfloat16)
    folder = saved(theirs, tmp_path / "theirs")
    checkpoint = imported(folder)
    stored = load_file(checkpoint.folder / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.bfloat16}
    assert {tensor.dtype for tensor in checkpoint.model.parameters()} == {torch.float32}
    assert_same(checkpoint, LlamaForCausalLM, folder, causal())
