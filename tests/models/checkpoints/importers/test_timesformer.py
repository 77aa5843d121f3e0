import pytest
import torch
from transformers import TimesformerConfig, TimesformerForVideoClassification

from attendant.errors import ConfigError, UnknownNameError
from tests.models.agreement import both_precisions
from tests.models.checkpoints.importers.saved import assert_same, imported, rewrite, saved

SIZES = {
    "num_frames": 3,
    "image_size": 8,
    "patch_size": 4,
    "num_channels": 3,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "num_labels": 5,
}
# A bias of the keys adds the same to every score of a query.
INDIFFERENT = ("attention.key.bias",)


def timesformer(folder, **settings):
    folder = saved(TimesformerForVideoClassification(TimesformerConfig(**{**SIZES, **settings})), folder)
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()
    return folder


def watching():
    videos = torch.randn(2, 3, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    return (
        lambda ours: ours(videos.to(ours.class_token.dtype)),
        lambda theirs: theirs(pixel_values=videos.to(theirs.dtype)).logits,
    )


@pytest.mark.planted
@both_precisions
@pytest.mark.parametrize(
    "settings",
    [
        {"hidden_act": "relu"},
        {"attention_type": "joint_space_time", "qkv_bias": False},
        {"layer_norm_eps": 0.01, "patch_size": 2, "qkv_bias": False},
    ],
    ids=str,
)
def test_an_imported_timesformer_computes_what_transformers_does(settings, dtype, tmp_path):
    folder = timesformer(tmp_path / "theirs", **settings)
    assert_same(imported(folder), TimesformerForVideoClassification, folder, watching(), dtype, INDIFFERENT)


def test_labels_and_an_answer_travel_with_it(tmp_path):
    labels = ["clap", "dance", "jump", "run", "sing"]
    folder = timesformer(tmp_path / "theirs", id2label=dict(enumerate(labels)), label2id={})
    checkpoint = imported(folder)
    assert checkpoint.details["labels"] == labels
    with torch.no_grad():
        theirs = TimesformerForVideoClassification.from_pretrained(folder).eval()(torch.zeros(1, 3, 3, 8, 8)).logits
    assert checkpoint.example == {"inputs": {}, "answer": labels[int(theirs.argmax())]}


@pytest.mark.parametrize(
    "fields",
    [{"qkv_bias": 2}, {"hidden_act": "mish"}, {"attention_type": "space_only"}, {"image_size": [8, 12]}],
    ids=str,
)
def test_what_cannot_be_compared_or_is_not_done_is_refused(fields, tmp_path):
    folder = timesformer(tmp_path / "theirs")
    rewrite(folder / "config.json", **fields)
    with pytest.raises(ConfigError, match=next(iter(fields))):
        imported(folder)


def test_a_model_without_a_classifier_is_refused_with_what_is_supported(tmp_path):
    folder = timesformer(tmp_path / "theirs")
    rewrite(folder / "config.json", architectures=["TimesformerModel"])
    with pytest.raises(UnknownNameError, match="TimesformerForVideoClassification"):
        imported(folder)
