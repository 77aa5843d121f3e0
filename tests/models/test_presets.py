import dataclasses
from pathlib import Path

import pytest
import torch

from models.inventory import read_inventory
from models.presets import PRESETS
from models.registry import FAMILIES, family_named
from models.size import size_of
from tests.models.checkpoints.folders import TINY

# The published ones were counted by two or three independent libraries that agree (shared/facts/models.md, B.1), or by
# transformers on the meta device; for the Transformer the formula of the paper gives them. RNNsearch is with biases.
PARAMETERS = {
    "transformer-base": 63_045_632,
    "transformer-big": 214_171_648,
    "transformer-tiny": 11_632,
    "transformer-pre-norm-tiny": 11_696,
    "marian-opus-mt": 73_886_208,  # transformers counts 2 × 512 × 512 more: its two tables of sinusoids
    "marian-tiny": 11_632,
    "bart-base": 139_420_416,
    "bart-tiny": 8_736,
    "t5-small": 60_506_624,
    "t5-v1.1-small": 76_961_152,
    "flan-t5-small": 76_961_152,
    "t5-tiny": 7_888,
    "t5-v1.1-tiny": 10_784,
    "rnnsearch-50": 80_451_000,
    "rnn-seq2seq-tiny": 1_685,
    "lstm-seq2seq-tiny": 5_859,
    "gru-seq2seq-tiny": 4_989,
    "gpt2": 124_439_808,
    "llama-2-7b": 6_738_415_616,
    "llama-3-8b": 8_030_261_248,
    "llama-3.2-1b": 1_235_814_400,
    "tinyllama-1.1b": 1_100_048_384,
    "mistral-7b": 7_241_732_096,
    "qwen2-0.5b": 494_032_768,
    "qwen3-0.6b": 596_049_920,
    "gpt2-tiny": 4_640,
    "llama-tiny": 4_912,
    "mistral-tiny": 4_912,
    "qwen2-tiny": 4_480,
    "qwen3-tiny": 5_984,
    "bert-base-uncased": 109_482_240,
    "bert-base-cased": 108_310_272,
    "bert-tiny": 5_472,
    "captioner-cptr": 139_257_600,  # facts B.1: 86,090,496 + 37,807,104, and twice 10,000 words of 768
    "captioner-cptr-tiny": 13_120,
    "captioner-cnn-tiny": 14_540,
    "captioner-vit-gpt2": 238_605_312,
    "captioner-vit-gpt2-tiny": 11_264,
    "trocr-base": 333_331_200,
    "trocr-tiny": 10_760,
    "show-attend-tell": 55_364_521,  # VGG-19's 20,024,384; 35,310,088 in matrices; biases, two of the LSTM's
    "show-attend-tell-tiny": 4_612,
    "cnn-rnn-captioner-tiny": 2_929,
    "cnn-lstm-captioner-tiny": 4_285,
    "cnn-gru-captioner-tiny": 3_745,
    "vit-ti-16": 5_717_416,
    "vit-ti-32": 6_131_560,  # transformers' ViT of these sizes; the facts have none
    "vit-s-16": 22_050_664,
    "vit-s-32": 22_878_952,
    "vit-b-16": 86_567_656,
    "vit-b-32": 88_224_232,
    "vit-l-16": 304_326_632,
    "vit-l-32": 306_535_400,  # published without a classifier: 305_510_400
    "vit-tiny": 5_621,
    "deit-ti-16": 5_717_416,
    "deit-s-16": 22_050_664,
    "deit-b-16": 86_567_656,
    "deit-ti-16-distilled": 5_910_800,
    "deit-s-16-distilled": 22_436_432,
    "deit-b-16-distilled": 87_338_192,
    "deit-distilled-tiny": 5_642,
    "r-vit-ti-16": 6_337_704,
    "r26-vit-s-32": 36_431_912,
    "r50-vit-b-16": 98_659_112,  # published without a classifier: 97_890_112
    "r50-vit-b-16-384": 98_950_952,
    "r50-vit-l-32": 328_994_856,
    "hybrid-vit-tiny": 15_677,
    "tnt-s": 23_768_584,
    "tnt-b": 65_428_680,
    "tnt-tiny": 8_773,
    "timesformer-b": 121_566_352,
    "timesformer-b-joint": 86_112_400,
    "timesformer-b-space": 86_106_256,
    "timesformer-tiny": 8_277,
    "timesformer-joint-tiny": 5_493,
    "timesformer-space-tiny": 5_445,
    "swin-t": 28_288_354,
    "swin-s": 49_606_258,
    "swin-b": 87_768_224,
    "swin-tiny": 6_899,
    "swin-v2-t": 28_347_154,
    "swin-v2-s": 49_728_418,
    "swin-v2-b": 87_918_816,
    "swin-v2-t-w16": 28_347_154,
    "swin-v2-tiny": 15_891,
}
# Matrix products and convolutions as torch's own counter saw them in those libraries.
GMAC = {
    "gpt2": 16.11,
    "bert-base-uncased": 11.174,
    "vit-ti-16": 1.254,
    "vit-s-16": 4.599,
    "vit-s-32": 1.143,
    "vit-b-16": 17.564,
    "vit-b-32": 4.409,
    "vit-l-16": 61.555,
    "vit-l-32": 15.378,
    "deit-ti-16-distilled": 1.261,
    "deit-s-16-distilled": 4.624,
    "deit-b-16-distilled": 17.657,
    "r-vit-ti-16": 0.434,
    "r26-vit-s-32": 3.464,
    "r50-vit-b-16": 21.535,
    "r50-vit-b-16-384": 67.156,
    "r50-vit-l-32": 19.413,
    "tnt-s": 5.217,
    "tnt-b": 14.049,
    "timesformer-b": 195.830,
    "timesformer-b-joint": 179.563,
    "timesformer-b-space": 140.507,  # with seven more rows through the head: transformers gives one a frame
    "swin-t": 4.491,
    "swin-s": 8.741,
    "swin-b": 15.431,
    "swin-v2-t": 5.940,
    "swin-v2-s": 11.546,
    "swin-v2-b": 20.325,
    "swin-v2-t-w16": 6.661,
}

FAMILY_TESTS = Path(__file__).parent / "families"
STORED = {row["name"]: row for row in read_inventory()["presets"]}  # tests/models/test_inventory.py counts them anew


def parameters_of(family_name, config):
    with torch.device("meta"):
        model = family_named(family_name).build(config)
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_preset_has_exactly_the_published_number_of_parameters(name):
    assert parameters_of(PRESETS[name].family, PRESETS[name].config) == PARAMETERS[name]


def test_the_published_size_of_a_preset_that_is_not_above_stands_in_its_familys_own_test():
    for name in PRESETS.keys() - set(TINY) - PARAMETERS.keys():
        assert f'"{name}"' in (FAMILY_TESTS / f"test_{PRESETS[name].family}.py").read_text()


@pytest.mark.parametrize("name", GMAC)
def test_a_preset_does_the_work_that_was_counted_in_another_library(name):
    assert STORED[name]["GMAC"] == pytest.approx(GMAC[name], abs=0.005)


@pytest.mark.parametrize(
    ("name", "without", "width"), [("vit-l-32", 305_510_400, 1024), ("r50-vit-b-16", 97_890_112, 768)]
)
def test_a_figure_that_was_published_without_a_classifier_lacks_its_thousand_classes(name, without, width):
    assert PARAMETERS[name] == without + 1000 * (width + 1)


def test_an_lstms_work_is_counted():
    size = size_of(PRESETS["lstm-seq2seq-tiny"])
    assert size.gmac * 1e9 > PRESETS["lstm-seq2seq-tiny"].config.max_source_length * 4 * 12 * (8 + 12)


def test_rnnsearch_has_the_weights_of_its_formula_and_one_bias_for_each_unit_beside():
    with torch.device("meta"):
        model = FAMILIES["rnn_seq2seq"].build(PRESETS["rnnsearch-50"].config)
    matrices = sum(parameter.numel() for parameter in model.parameters() if parameter.dim() > 1)
    assert matrices == 80_401_000


def test_with_biases_and_two_final_norms_it_is_as_large_as_torchs_transformer():
    family_name, config = PRESETS["transformer-base"].family, PRESETS["transformer-base"].config
    as_torch = dataclasses.replace(config, attention_bias=True, norm_order="pre")
    assert parameters_of(family_name, as_torch) == 63_084_544


def test_attention_biases_add_four_vectors_to_each_of_eighteen_attentions():
    family_name, config = PRESETS["transformer-base"].family, PRESETS["transformer-base"].config
    with_biases = dataclasses.replace(config, attention_bias=True)
    assert parameters_of(family_name, with_biases) == 63_082_496 == 63_045_632 + 18 * 4 * 512


@pytest.mark.parametrize(("name", "dropout"), [("transformer-base", 0.1), ("transformer-big", 0.3), ("vit-b-16", 0.0)])
def test_a_published_preset_trains_with_the_published_dropout(name, dropout):
    assert PRESETS[name].config.dropout == dropout


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_of_its_familys_configuration(name):
    assert type(PRESETS[name].config) is FAMILIES[PRESETS[name].family].config


def test_every_family_has_a_tiny_preset():
    assert {PRESETS[name].family for name in TINY} == set(FAMILIES)


@pytest.mark.parametrize("name", TINY)
def test_a_tiny_preset_is_small_enough_for_every_test(name):
    assert STORED[name]["parameters"] < 20_000
