import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import ViTConfig, ViTForImageClassification
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

from attendant.errors import ArtefactError, ConfigError, UnknownNameError
from tests.models.agreement import both_precisions
from tests.models.checkpoints.importers.saved import GONE, assert_same, imported, rewrite, saved

SIZES = {
    "image_size": 12,
    "patch_size": 4,
    "num_channels": 3,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "num_labels": 5,
}
LABELS = ["ant", "bee", "cat", "dog", "elk"]
# A bias of the keys adds the same to every score of a query.
INDIFFERENT = ("attention.key.bias",)


def vit(folder, **settings):
    folder = saved(ViTForImageClassification(ViTConfig(**{**SIZES, **settings})), folder)
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()
    ViTImageProcessorPil(size={"height": 12, "width": 12}).save_pretrained(folder)
    return folder


def seeing():
    pixels = torch.randn(3, 3, 12, 12, generator=torch.Generator().manual_seed(0))
    return (
        lambda ours: ours(pixels.to(ours.class_token.dtype)),
        lambda theirs: theirs(pixel_values=pixels.to(theirs.dtype)).logits,
    )


@pytest.mark.planted
@both_precisions
@pytest.mark.parametrize(
    "settings",
    [{}, {"layer_norm_eps": 0.01, "patch_size": 3}, {"qkv_bias": False, "hidden_act": "quick_gelu"}],
    ids=str,
)
def test_an_imported_vit_computes_what_transformers_does(settings, dtype, tmp_path):
    folder = vit(tmp_path / "theirs", **settings)
    assert_same(imported(folder), ViTForImageClassification, folder, seeing(), dtype, INDIFFERENT)


def test_labels_preprocessing_and_an_answer_travel_with_it(tmp_path):
    folder = vit(tmp_path / "theirs", id2label=dict(enumerate(LABELS)), label2id={})
    checkpoint = imported(folder)
    assert checkpoint.details["labels"] == LABELS
    assert checkpoint.details["preprocessing"]["size"] == [12, 12]
    with torch.no_grad():
        theirs = ViTForImageClassification.from_pretrained(folder).eval()(torch.zeros(1, 3, 12, 12)).logits
    assert checkpoint.example == {"inputs": {}, "answer": LABELS[int(theirs.argmax())]}


def test_labels_that_the_library_made_up_are_none(tmp_path):
    assert "labels" not in imported(vit(tmp_path / "theirs")).details


def test_labels_with_a_gap_are_refused(tmp_path):
    folder = vit(tmp_path / "theirs")
    rewrite(folder / "config.json", id2label={"0": "ant", "1": "bee", "2": "cat", "3": "dog", "7": "elk"})
    with pytest.raises(ConfigError, match="id2label of 0 to 4"):
        imported(folder)


@pytest.mark.parametrize("label", ["zero\nnull", "a\u2028b"])
def test_labels_of_several_lines_are_refused(label, tmp_path):
    folder = vit(tmp_path / "theirs", id2label=dict(enumerate([label, *LABELS[1:]])), label2id={})
    with pytest.raises(ConfigError, match="labels of one line each"):
        imported(folder)


@pytest.mark.parametrize("fields", [{"size": {"shortest_edge": [1]}}, {"image_mean": [[], 1, 1]}], ids=str)
def test_a_preprocessing_that_cannot_be_read_is_refused(fields, tmp_path):
    folder = vit(tmp_path / "theirs")
    rewrite(folder / "preprocessor_config.json", **fields)
    with pytest.raises(ConfigError, match=r"labels, preprocessing and tokenizer in|a size of|image_mean"):
        imported(folder)


@pytest.mark.parametrize("fields", [{"qkv_bias": 2}, {"hidden_act": "mish"}, {"mystery": 3}], ids=str)
def test_what_the_family_does_not_do_is_refused(fields, tmp_path):
    folder = vit(tmp_path / "theirs")
    rewrite(folder / "config.json", **fields)
    with pytest.raises(ConfigError, match=next(iter(fields))):
        imported(folder)


def test_a_model_without_a_classifier_is_refused_with_what_is_supported(tmp_path):
    folder = vit(tmp_path / "theirs")
    rewrite(folder / "config.json", architectures=["ViTModel"])
    with pytest.raises(UnknownNameError, match="ViTForImageClassification"):
        imported(folder)


def test_a_missing_head_is_named(tmp_path):
    folder = vit(tmp_path / "theirs")
    rewrite(folder / "config.json", architectures=GONE)
    weights = folder / "model.safetensors"
    kept = {name: one for name, one in load_file(weights).items() if not name.startswith("classifier")}
    save_file(kept, weights)
    with pytest.raises(ArtefactError, match="classifier"):
        imported(folder)
