import pytest
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

from attendant.errors import ConfigError
from tests.models.checkpoints.importers.saved import GONE, assert_same, causal, imported, rewrite, saved
from tests.models.checkpoints.importers.test_llama import SIZES

KINDS = {"qwen2": (Qwen2Config, Qwen2ForCausalLM), "qwen3": (Qwen3Config, Qwen3ForCausalLM)}
FULL, SLIDING = "full_attention", "sliding_attention"


def qwen(kind, folder, **settings):
    config, model = KINDS[kind]
    return saved(model(config(**{**SIZES, **settings})), folder)


@pytest.mark.planted
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tied", [False, True])
def test_an_imported_qwen_computes_what_transformers_does(kind, tied, tmp_path):
    folder = qwen(kind, tmp_path / "theirs", tie_word_embeddings=tied)
    assert_same(imported(folder), KINDS[kind][1], folder, causal())


@pytest.mark.planted
def test_qwen3_may_have_heads_of_their_own_size_and_biases(tmp_path):
    folder = qwen("qwen3", tmp_path / "theirs", head_dim=6, attention_bias=True)
    checkpoint = imported(folder)
    assert (checkpoint.config.head_size, checkpoint.config.qkv_bias, checkpoint.config.output_bias) == (6, True, True)
    assert_same(checkpoint, Qwen3ForCausalLM, folder, causal())


@pytest.mark.planted
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", [0, 1])
def test_the_last_blocks_may_have_a_window(kind, first, tmp_path):
    window = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": first}
    folder = qwen(kind, tmp_path / "theirs", **window)
    checkpoint = imported(folder)
    assert (checkpoint.config.window, checkpoint.config.first_window_layer) == (4, first)
    assert_same(checkpoint, KINDS[kind][1], folder, causal(12))
    rewrite(folder / "config.json", layer_types=GONE)
    assert imported(folder).config == checkpoint.config


@pytest.mark.planted
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("plan", [[SLIDING, FULL], [FULL, SLIDING], [SLIDING, SLIDING]], ids=str)
def test_blocks_with_a_window_may_stand_anywhere(plan, kind, tmp_path):
    folder = qwen(kind, tmp_path / "theirs", use_sliding_window=True, sliding_window=4, layer_types=plan)
    assert_same(imported(folder), KINDS[kind][1], folder, causal(12))


def test_a_window_that_is_switched_off_is_none(tmp_path):
    folder = qwen("qwen2", tmp_path / "theirs", use_sliding_window=False, sliding_window=4, max_window_layers=0)
    rewrite(folder / "config.json", sliding_window=4, layer_types=GONE)
    assert imported(folder).config.window is None


@pytest.mark.parametrize(
    "fields",
    [
        {"layer_types": [SLIDING, FULL, FULL], "use_sliding_window": True, "sliding_window": 4},
        {"layer_types": [FULL, SLIDING], "use_sliding_window": False},
        {"layer_types": [FULL]},
        {"layer_types": ["chunked_attention", FULL]},
        {"layer_types": "full"},
    ],
    ids=str,
)
def test_other_plans_of_windows_are_refused(fields, tmp_path):
    folder = qwen("qwen2", tmp_path / "theirs")
    rewrite(folder / "config.json", **fields)
    with pytest.raises(ConfigError, match="layer_types"):
        imported(folder)
