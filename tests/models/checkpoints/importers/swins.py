"""Folders of tiny Swins and SwinV2s as transformers writes them."""

import torch
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

from tests.models.checkpoints.importers.saved import saved

SIZES = {
    "image_size": 40,
    "patch_size": 4,
    "num_channels": 3,
    "embed_dim": 8,
    "depths": [2, 2],
    "num_heads": [1, 2],
    "window_size": 3,
    "mlp_ratio": 2.0,
    "num_labels": 5,
}


def swin_folder(folder, kind, config, **settings):
    """A folder without a tokenizer and with an image processor."""
    sizes = {**SIZES, **settings}
    # Large enough that in float32 every parameter moves an output.
    folder = saved(kind(config(**sizes)), folder, deviation=0.5)
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()
    side = sizes["image_size"]
    ViTImageProcessorPil(size={"height": side, "width": side}).save_pretrained(folder)
    return folder


def seeing(side=SIZES["image_size"]):
    """How ours and how theirs is run on the same images."""
    pixels = torch.randn(3, 3, side, side, generator=torch.Generator().manual_seed(0))
    return (
        lambda ours: ours(pixels.to(ours.head.weight.dtype)),
        lambda theirs: theirs(pixel_values=pixels.to(theirs.dtype)).logits,
    )
