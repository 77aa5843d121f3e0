import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForMaskedLM, BertForPreTraining, BertModel

from attendant.errors import ConfigError, UnknownNameError
from tests.models.agreement import both_precisions
from tests.models.checkpoints.importers.saved import VOCABULARY, assert_same, imported, padding, rewrite, saved, tokens

SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 24,
}
INDIFFERENT = ("attention.key.bias",)


def bert(folder, kind=BertModel, **settings):
    return saved(kind(BertConfig(**{**SIZES, **settings})), folder)


def reading():
    ids, mask, types = tokens(2, 9), padding(9, 6), tokens(2, 9) % 2

    def run_theirs(theirs):
        read = theirs(input_ids=ids, attention_mask=mask.long(), token_type_ids=types)
        return torch.cat([read.last_hidden_state[mask], read.pooler_output])

    def run_ours(ours):
        hidden, pooled = ours(ids, mask, types)
        return torch.cat([hidden[mask], pooled])

    return run_ours, run_theirs


@pytest.mark.planted
@both_precisions
@pytest.mark.parametrize(
    "settings", [{}, {"hidden_act": "relu", "layer_norm_eps": 0.01, "type_vocab_size": 3}], ids=str
)
def test_an_imported_bert_computes_what_transformers_does(settings, dtype, tmp_path):
    folder = bert(tmp_path / "theirs", **settings)
    checkpoint = imported(folder)
    # The third kind of token is none of the inputs'.
    assert_same(checkpoint, BertModel, folder, reading(), dtype, INDIFFERENT)
    assert len(checkpoint.example["answer"]) == 8


@pytest.mark.planted
def test_a_model_with_the_heads_of_its_training_is_read_without_them(tmp_path):
    folder = bert(tmp_path / "theirs", BertForPreTraining)
    assert "cls.seq_relationship.weight" in load_file(folder / "model.safetensors")
    assert_same(imported(folder), BertModel, folder, reading(), indifferent=INDIFFERENT)


@pytest.mark.planted
def test_the_names_of_the_first_files_are_understood(tmp_path):
    folder = bert(tmp_path / "theirs", BertForPreTraining)
    path = folder / "model.safetensors"
    spelled = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in load_file(path).items()
    }
    save_file({**spelled, "bert.embeddings.position_ids": torch.arange(24)[None]}, path)
    assert_same(imported(folder), BertModel, folder, reading(), indifferent=INDIFFERENT)


@pytest.mark.planted
def test_a_shorter_model_has_a_shorter_table(tmp_path):
    folder = bert(tmp_path / "theirs")
    checkpoint = imported(folder, max_length=10)
    assert checkpoint.model.positions.weight.shape[0] == 10
    assert_same(checkpoint, BertModel, folder, reading(), indifferent=INDIFFERENT)


@pytest.mark.parametrize(
    "fields",
    [{"position_embedding_type": "relative_key"}, {"is_decoder": True}, {"add_cross_attention": True}],
    ids=str,
)
def test_what_the_family_does_not_do_is_refused(fields, tmp_path):
    folder = bert(tmp_path / "theirs")
    rewrite(folder / "config.json", **fields)
    with pytest.raises(ConfigError, match=next(iter(fields))):
        imported(folder)


def test_a_classifier_is_refused_with_what_is_supported(tmp_path):
    folder = bert(tmp_path / "theirs")
    rewrite(folder / "config.json", architectures=["BertForSequenceClassification"])
    with pytest.raises(UnknownNameError, match=r"BertModel.*found \['BertForSequenceClassification'\]"):
        imported(folder)


@pytest.mark.planted
def test_a_masked_language_model_has_no_pooler_and_means_its_tokens(tmp_path):
    folder = bert(tmp_path / "theirs", BertForMaskedLM)
    assert not any("pooler" in name for name in load_file(folder / "model.safetensors"))
    checkpoint = imported(folder)
    ids, mask, types = tokens(2, 9), padding(9, 6), tokens(2, 9) % 2
    theirs = BertModel.from_pretrained(folder, add_pooling_layer=False).eval()
    with torch.no_grad():
        hidden, pooled = checkpoint.model(ids, mask, types)
        wanted = theirs(input_ids=ids, attention_mask=mask.long(), token_type_ids=types).last_hidden_state
    assert torch.allclose(hidden[mask], wanted[mask], atol=1e-5)
    means = torch.stack([row[kept].mean(0) for row, kept in zip(wanted, mask, strict=True)])
    assert torch.allclose(pooled, means, atol=1e-5)
    assert len(checkpoint.example["answer"]) == 8
