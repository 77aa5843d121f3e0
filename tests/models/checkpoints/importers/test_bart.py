import pytest
from safetensors.torch import load_file, save_file
from transformers import BartConfig, BartForConditionalGeneration, BartModel

from attendant.errors import ConfigError
from tests.models.agreement import both_precisions
from tests.models.checkpoints.importers.saved import assert_same, imported, rewrite, saved, translating
from tests.models.checkpoints.importers.test_marian import INDIFFERENT, SIZES

TOKENS = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}


def bart(folder, kind=BartForConditionalGeneration, **settings):
    return saved(kind(BartConfig(**{**SIZES, **TOKENS, **settings})), folder)


@pytest.mark.planted
@both_precisions
@pytest.mark.parametrize(
    "settings", [{}, {"scale_embedding": True, "decoder_layers": 1}, {"tie_word_embeddings": False}], ids=str
)
def test_an_imported_bart_computes_what_transformers_does(settings, dtype, tmp_path):
    folder = bart(tmp_path / "theirs", **settings)
    assert_same(imported(folder), BartForConditionalGeneration, folder, translating(), dtype, INDIFFERENT)


@pytest.mark.planted
def test_a_shorter_model_has_a_shorter_table(tmp_path):
    folder = bart(tmp_path / "theirs")
    checkpoint = imported(folder, max_length=9)
    assert checkpoint.model.source_encoding.positions.weight.shape[0] == 11
    assert_same(checkpoint, BartForConditionalGeneration, folder, translating(), indifferent=INDIFFERENT)


@pytest.mark.planted
def test_a_bare_model_without_prefix_and_head_is_understood(tmp_path):
    folder = bart(tmp_path / "theirs", BartModel)
    tensors = load_file(folder / "model.safetensors")
    assert "shared.weight" in tensors
    assert "final_logits_bias" not in tensors
    assert_same(imported(folder), BartForConditionalGeneration, folder, translating(), indifferent=INDIFFERENT)


@pytest.mark.planted
def test_a_tensor_under_another_of_its_names_is_found(tmp_path):
    folder = bart(tmp_path / "theirs")
    path = folder / "model.safetensors"
    tensors = load_file(path)
    tensors["model.decoder.embed_tokens.weight"] = tensors.pop("model.shared.weight")
    save_file(tensors, path)
    assert_same(imported(folder), BartForConditionalGeneration, folder, translating(), indifferent=INDIFFERENT)


@pytest.mark.parametrize(
    "fields", [{"normalize_embedding": False}, {"static_position_embeddings": True}, {"is_decoder": True}], ids=str
)
def test_what_the_family_does_not_do_is_refused(fields, tmp_path):
    folder = bart(tmp_path / "theirs")
    rewrite(folder / "config.json", **fields)
    with pytest.raises(ConfigError, match=next(iter(fields))):
        imported(folder)
