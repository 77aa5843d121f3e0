"""Whole models on the torch runner, whose attention layers compute by our kernels, interpreted, beside torch's own."""

from collections import Counter

import numpy as np
import pytest
import torch

import serving.runtime.torch.attention as fused
from attendant.errors import ConfigError
from models.layers.attend import attend_in_groups
from models.layers.relative_position_2d import OffsetBias
from models.layers.window_attention import WindowAttention, attend_in_windows_by
from models.layers.windows import windows_of
from serving.runtime.torch.attention import FusedAttention
from tests.models.kernels.whole_models import decoded, runners, worst
from tests.serving.runtime.torch_devices import ReplayedOnCpu

TOLERANCE = 2e-5
slow = pytest.mark.slow
RECORDERS = [pytest.param(None, id="as it is"), pytest.param(ReplayedOnCpu(), id="recorded", marks=slow)]


@pytest.fixture
def kernels(monkeypatch):
    """How often each kernel, and torch in their place, was asked."""
    counts = Counter()

    def counting(name, call):
        def counted(*arguments):
            counts[name] += 1
            return call(*arguments)

        return counted

    for name in (
        "decode_append_attention",
        "decode_attention",
        "flash_attention",
        "rotate_append",
        "skinny_product",
        "window_attention",
        "attend_in_groups",
    ):
        monkeypatch.setattr(fused, name, counting(name, getattr(fused, name)))
    return counts


@pytest.mark.parametrize("recorder", RECORDERS)
def test_a_decoder_over_its_cache_computes_the_same_by_our_kernels(kernels, recorder):
    found = decoded(runners("llama-tiny", FusedAttention(8), recorder)["decoder"])
    assert worst(found, decoded(runners("llama-tiny", attend_in_groups)["decoder"])) < TOLERANCE
    # Four products a block and step; attention writes the cache, too.
    assert kernels == {"decode_append_attention": 8, "skinny_product": 16} or (recorder and len(kernels) == 2)


@pytest.mark.parametrize("rows", [1, pytest.param(2, marks=slow), 3])
@pytest.mark.parametrize(
    "preset",
    ["gpt2-tiny", "qwen3-tiny", pytest.param("qwen2-tiny", marks=slow), pytest.param("mistral-tiny", marks=slow)],
)
def test_steps_of_other_blocks_compute_the_same(kernels, preset, rows):
    both = FusedAttention(8), attend_in_groups
    found, wanted = (decoded(runners(preset, attention)["decoder"], rows=rows) for attention in both)
    assert worst(found, wanted) < TOLERANCE
    assert (kernels["skinny_product"] > 0) == (rows <= 2)


@slow
def test_an_encoder_decoder_over_a_padded_source_computes_the_same(kernels):
    found = []
    for attention in (FusedAttention(8), attend_in_groups):
        made = runners("transformer-tiny", attention)
        mask = np.array([[True] * 5 + [False], [True] * 3 + [False] * 3])
        source = {"source_ids": np.arange(12).reshape(2, 6) % 10, "source_mask": mask}
        memories = {name: buffer.numpy() for name, buffer in made["encoder"].run(source).items()}
        found.append(decoded(made["decoder"], {"source_mask": mask, **memories}))
    assert worst(*found) < TOLERANCE
    assert "attend_in_groups" not in kernels


@pytest.mark.parametrize("few", [0, 8])
def test_an_encoder_of_images_computes_the_same(kernels, monkeypatch, few):
    monkeypatch.setattr(fused, "_FEW", few)
    pixels = np.random.default_rng(0).normal(size=(2, 3, 8, 8)).astype(np.float32)
    found = []
    for attention in (FusedAttention(8), attend_in_groups):
        runner = runners("vit-tiny", attention)["model"]
        shape = runner.signature.inputs[0].shape({"batch": 2})
        found.append([runner.run({"pixels": np.resize(pixels, shape)})["logits"].numpy()])
    assert worst(*found) < TOLERANCE
    assert kernels and "attend_in_groups" not in kernels


@pytest.mark.parametrize("preset", ["swin-tiny", pytest.param("swin-v2-tiny", marks=slow)])
def test_windows_of_a_map_shifted_and_padded_compute_the_same(kernels, preset):
    found = []
    for attention in (FusedAttention(8), attend_in_groups):
        runner = runners(preset, attention)["model"]
        pixels = np.random.default_rng(0).normal(size=runner.signature.inputs[0].shape({"batch": 2}))
        found.append([runner.run({"pixels": pixels.astype(np.float32)})["logits"].numpy()])
    assert worst(*found) < TOLERANCE
    assert kernels == {"window_attention": 4}


def test_windows_without_a_kernel_are_torchs(kernels):
    layer = WindowAttention(8, 1, windows_of(33, 33, False), OffsetBias(33, 1))
    grid = torch.randn(1, 33, 33, 8)
    plain = layer(grid)
    attend_in_windows_by(layer, FusedAttention(8).in_windows)
    # The same computation twice, in one process.
    assert torch.equal(layer(grid), plain) and kernels == {"window_attention": 1}


def test_many_new_positions_are_read_by_flash_attention(kernels, monkeypatch):
    monkeypatch.setattr(fused, "_FEW", 1)
    found = decoded(runners("llama-tiny", FusedAttention(8))["decoder"])
    assert worst(found, decoded(runners("llama-tiny", attend_in_groups)["decoder"])) < TOLERANCE
    by_kernel = {"rotate_append": 4, "flash_attention": 4, "decode_append_attention": 4, "skinny_product": 16}
    assert kernels == by_kernel


@pytest.mark.parametrize("preset", ["mistral-tiny", pytest.param("t5-tiny", marks=slow)])
def test_a_window_or_a_bias_is_torchs(kernels, preset):
    found = []
    for attention in (FusedAttention(8), attend_in_groups):
        made, memories = runners(preset, attention), None
        if "encoder" in made:
            mask = np.ones((2, 4), dtype=bool)
            source = {"source_ids": np.arange(8).reshape(2, 4), "source_mask": mask}
            memories = {"source_mask": mask} | {k: v.numpy() for k, v in made["encoder"].run(source).items()}
        found.append(decoded(made["decoder"], memories))
    assert worst(*found) < TOLERANCE
    assert kernels["attend_in_groups"]


@pytest.mark.planted
def test_lengths_that_are_off_by_one_would_be_noticed(monkeypatch):
    attention = FusedAttention(8)
    length = FusedAttention._length
    monkeypatch.setattr(FusedAttention, "_length", lambda self, name: length(self, name) - 1)
    monkeypatch.setattr(fused, "_FEW", 0)
    found = decoded(runners("llama-tiny", attention)["decoder"])
    wanted = decoded(runners("llama-tiny", attend_in_groups)["decoder"])
    assert worst(found, wanted) > 50 * TOLERANCE


@pytest.mark.planted
def test_a_cache_that_is_written_one_place_off_would_be_noticed(monkeypatch):
    append = fused.decode_append_attention
    monkeypatch.setattr(fused, "decode_append_attention", lambda *a: append(*a[:5], a[5] + 1, *a[6:]))
    found = decoded(runners("llama-tiny", FusedAttention(8))["decoder"])
    assert worst(found, decoded(runners("llama-tiny", attend_in_groups)["decoder"])) > 50 * TOLERANCE


@pytest.mark.planted
def test_a_rotation_that_is_left_out_would_be_noticed(monkeypatch):
    append = fused.decode_append_attention
    monkeypatch.setattr(fused, "decode_append_attention", lambda *a: append(*a[:3], None, *a[4:]))
    found = decoded(runners("llama-tiny", FusedAttention(8))["decoder"])
    assert worst(found, decoded(runners("llama-tiny", attend_in_groups)["decoder"])) > 50 * TOLERANCE


@pytest.mark.parametrize("fits", [True, False])
def test_hoppers_prefill_has_many_positions_where_it_fits_and_flash_attention_has_the_rest(kernels, monkeypatch, fits):
    by_flash, taken = fused.flash_attention, []

    def hopper(*arguments):
        if not fits:
            raise ConfigError("heads of 64", "16", "")
        taken.append(arguments)
        return by_flash(*arguments)

    monkeypatch.setattr(fused, "_FEW", 1)
    monkeypatch.setattr(fused, "_MANY", 1)
    found = decoded(runners("llama-tiny", FusedAttention(8, hopper))["decoder"])
    assert worst(found, decoded(runners("llama-tiny", attend_in_groups)["decoder"])) < TOLERANCE
    assert len(taken) == (4 if fits else 0)
    assert kernels["decode_append_attention"] == 4
