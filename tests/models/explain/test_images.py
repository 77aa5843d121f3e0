import dataclasses

import pytest
import torch

from attendant.errors import ConfigError
from models.explain.images import attention_maps, class_gradient_rollout, class_rollout, patch_map
from models.explain.rollout import gradient_rollout, rollout
from models.presets import PRESETS
from models.registry import FAMILIES
from tests.models.agreement import difference, randomised
from tests.models.families.vit_weights import stranger_from_ours
from tests.models.float64_oracles import FullPrecision


def built(preset="vit-tiny", **changes):
    torch.manual_seed(0)
    chosen = PRESETS[preset]
    config = dataclasses.replace(chosen.config, **changes)
    return randomised(FAMILIES[chosen.family].build(config), torch.float64)


def pixels_for(model, batch=2):
    shape = model.config.pixel_shape
    return torch.randn(batch, *shape, generator=torch.Generator().manual_seed(1)).double()


def transformers_attentions(model, pixels):
    theirs = stranger_from_ours(model)
    theirs.set_attn_implementation("eager")
    pixels = pixels.clone().requires_grad_()
    with FullPrecision():
        return theirs(pixel_values=pixels, output_attentions=True)


@pytest.mark.parametrize("fusion", ["mean", "min", "max"])
def test_the_rollout_is_that_of_the_library_s_own_attentions(fusion):
    model = built(head_width=None)
    pixels = pixels_for(model)
    wanted = rollout(transformers_attentions(model, pixels).attentions, fusion)[:, 0, 1:].view(2, 3, 3)
    found = class_rollout(model, pixels, fusion)
    assert found.shape == (2, 3, 3)
    assert difference(found, wanted) <= 1e-12
    assert difference(found[0], found[1]) > 1e-3


def test_the_class_s_own_map_follows_the_library_s_gradients():
    model = built(head_width=None)
    pixels, classes = pixels_for(model), torch.tensor([2, 4])
    outputs = transformers_attentions(model, pixels)
    logit = outputs.logits.gather(1, classes[:, None]).sum()
    gradients = torch.autograd.grad(logit, outputs.attentions)
    wanted = gradient_rollout([one.detach() for one in outputs.attentions], gradients)[:, 0, 1:].view(2, 3, 3)
    found = class_gradient_rollout(model, pixels, classes)
    assert difference(found, wanted) <= 1e-12
    assert difference(found, class_gradient_rollout(model, pixels, torch.tensor([4, 2]))) > 1e-4
    assert not found.requires_grad


def test_a_token_beside_the_class_token_is_not_shown_as_a_patch():
    rolled = torch.arange(11.0).expand(1, 11, 11)
    assert torch.equal(patch_map(rolled)[0], torch.arange(2.0, 11.0).view(3, 3))


@pytest.mark.parametrize("preset", ["deit-distilled-tiny", "tnt-tiny", "hybrid-vit-tiny"])
def test_other_models_with_tokens_in_front_of_their_patches_have_maps_too(preset):
    model = built(preset)
    pixels = pixels_for(model)
    rolled, evidence = class_rollout(model, pixels), class_gradient_rollout(model, pixels, torch.tensor([0, 1]))
    side = rolled.shape[-1]
    assert rolled.shape == evidence.shape == (2, side, side)
    assert rolled.sum((1, 2)).min() > 0 and rolled.sum((1, 2)).max() < 1
    assert difference(rolled, evidence) > 1e-4


def test_there_is_a_map_for_every_layer():
    model = built()
    assert [one.shape for one in attention_maps(model, pixels_for(model))] == [(2, 2, 10, 10)] * 2


def test_layers_over_different_tokens_have_no_rollout():
    model = built()
    model.blocks[1].attention.forward = lambda inputs, source: type(model.blocks[1].attention).forward(
        model.blocks[1].attention, inputs, source[:, :4]
    )
    with pytest.raises(ConfigError, match="self-attention over the same tokens"):
        class_rollout(model, pixels_for(model))
