"""The graph ``explained`` of every kind shows just what models/explain finds, and answers as the plain graph does."""

import pytest
import torch

from models.checkpoints.resolve import checkpoint_named
from models.explain.alignments import alignments
from models.explain.images import attention_maps, class_rollout
from models.explain.observe import observe
from models.explain.windows import received_attention
from tests.models.agreement import difference, randomised

TOKENS = ["vit-tiny", "deit-distilled-tiny", "hybrid-vit-tiny", "tnt-tiny"]
EVERY = torch.arange(4)[None].expand(2, 4)
WINDOWS = ["swin-tiny", "swin-v2-tiny"]


def explained(preset):
    checkpoint = checkpoint_named(preset)
    graphs = checkpoint.graphs(explain=True)
    return randomised(checkpoint.model, torch.float64), graphs


def shown(graph, *inputs):
    outputs = graph.module(*inputs)
    return {spec.name: tensor for spec, tensor in zip(graph.signature.outputs, outputs, strict=True)}


def images(model):
    return torch.randn(2, *model.config.pixel_shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("preset", TOKENS)
def test_of_a_classifier_over_tokens_it_shows_every_layer_and_their_rollout(preset):
    model, (plain, graph) = explained(preset)
    pixels = images(model)
    outputs = shown(graph, pixels)
    assert difference(outputs["logits"], plain.module(pixels)) <= 1e-12
    assert difference(outputs["attention"], torch.stack(attention_maps(model, pixels), 1)) <= 1e-12
    assert difference(outputs["rollout"], class_rollout(model, pixels)) <= 1e-12
    assert difference(outputs["attention"].sum(-1), torch.ones(outputs["attention"].shape[:-1])) <= 1e-12


@pytest.mark.parametrize("preset", WINDOWS)
def test_of_a_classifier_over_windows_it_shows_what_each_place_receives(preset):
    model, (plain, graph) = explained(preset)
    pixels = images(model)
    outputs, offline = shown(graph, pixels), received_attention(model, pixels)
    assert difference(outputs.pop("logits"), plain.module(pixels)) <= 1e-12
    assert list(outputs) == [f"received_{layer}" for layer in range(1, len(offline) + 1)]
    assert max(difference(one, other) for one, other in zip(outputs.values(), offline.values(), strict=True)) <= 1e-12


@pytest.mark.parametrize("preset", ["transformer-tiny", "t5-v1.1-tiny", "bart-tiny"])
def test_of_a_cached_decoder_it_shows_what_the_full_forward_pass_attends_to(preset):
    model, (encoder, _, graph) = explained(preset)
    source = torch.randint(3, 20, (2, 5), generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    target = torch.randint(3, 20, (2, 4), generator=torch.Generator().manual_seed(1))
    caches = [
        torch.zeros(spec.shape({"batch": 2}), dtype=torch.float64)
        for spec in graph.signature.inputs
        if spec.name.startswith("self_") and spec.name != "self_mask"
    ]
    crosses, found = encoder.module(source, mask), []
    for start, end in ((0, 3), (3, 4)):
        steps = end - start
        seen = torch.arange(end)[None, None, None] <= torch.arange(start, end)[None, None, :, None]
        inputs = target[:, start:end], torch.full((2,), start), seen.expand(2, 1, steps, end), EVERY[:, :steps], mask
        outputs = shown(graph, *inputs, *caches, *crosses)
        caches = [tensor for name, tensor in outputs.items() if name.startswith("self_")]
        found.append(outputs["cross_attention"])
    offline = alignments(model, source, mask, target)
    assert difference(torch.cat(found, dim=3), offline) <= 1e-12
    assert offline.std() > 0.01


@pytest.mark.parametrize("preset", ["gpt2-tiny", "llama-tiny", "mistral-tiny", "qwen3-tiny"])
def test_of_a_language_model_it_shows_what_the_last_layer_of_the_full_forward_pass_attends_to(preset):
    model, (plain, graph) = explained(preset)
    tokens = torch.randint(3, 20, (2, 6), generator=torch.Generator().manual_seed(1))
    caches = [
        torch.zeros(spec.shape({"batch": 2}), dtype=torch.float64)
        for spec in graph.signature.inputs
        if spec.name.startswith("self_") and spec.name != "self_mask"
    ]
    with observe(model) as maps:
        model(tokens)
    offline = [one for calls in maps.values() for one in calls][-1]
    assert offline.std() > 0.01 and offline.shape[-2:] == (6, 6)
    for start, end in ((0, 4), (4, 5), (5, 6)):
        steps = end - start
        seen = (torch.arange(end)[None] <= torch.arange(start, end)[:, None]).expand(2, 1, steps, end)
        inputs = tokens[:, start:end], torch.full((2,), start), seen, torch.arange(steps)[None].expand(2, steps)
        outputs = shown(graph, *inputs, *caches)
        assert difference(outputs["logits"], plain.module(*inputs, *caches)[0]) <= 1e-12
        assert difference(outputs["self_attention"], offline[:, :, start:end, :end]) <= 1e-12
        caches = [tensor for name, tensor in outputs.items() if name.startswith("self_") and name != "self_attention"]
