import pytest
import torch

from models.explain.windows import received_attention
from models.presets import PRESETS
from models.registry import FAMILIES
from tests.models.agreement import difference, randomised
from tests.models.families.swin_weights import transformers_from_ours
from tests.models.float64_oracles import FullPrecision


def built(preset):
    torch.manual_seed(0)
    chosen = PRESETS[preset]
    return randomised(FAMILIES[chosen.family].build(chosen.config), torch.float64)


def by_loops(attentions, windows, batch):
    """transformers' weights of a layer ``[B·W, H, S, S]``, place by place."""
    along, size, side = windows.along, windows.size, windows.side
    received = attentions.mean((1, 2)).reshape(batch, along, along, size, size)
    found = torch.zeros(batch, side, side, dtype=attentions.dtype)
    whole = along * size
    for row in range(side):
        for column in range(side):
            y, x = (row - windows.shift) % whole, (column - windows.shift) % whole
            found[:, row, column] = received[:, y // size, x // size, y % size, x % size]
    return found


@pytest.mark.parametrize("preset", ["swin-tiny", "swin-v2-tiny"])
def test_it_is_the_library_s_attention_place_by_place(preset):
    model = built(preset)
    pixels = torch.randn(2, *model.config.pixel_shape, generator=torch.Generator().manual_seed(1)).double()
    theirs = transformers_from_ours(model)
    theirs.set_attn_implementation("eager")
    attentions = []
    for module in theirs.modules():
        if type(module).__name__ in ("SwinAttention", "Swinv2SelfAttention"):
            module.register_forward_hook(lambda _, __, output: attentions.append(output[1]))
    with FullPrecision(), torch.no_grad():
        theirs(pixel_values=pixels, output_attentions=True)
    found = received_attention(model, pixels)
    layers = [model.get_submodule(name) for name in found]
    assert len(found) == len(attentions) == sum(model.config.depths)
    for one, layer, weights in zip(found.values(), layers, attentions, strict=True):
        assert difference(one, by_loops(weights, layer.windows, 2)) <= 1e-12
    assert any(layer.windows.shift for layer in layers)


def test_a_model_without_windows_has_no_such_map():
    assert received_attention(built("vit-tiny"), torch.zeros(1, 3, 12, 12).double()) == {}
