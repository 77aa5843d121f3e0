"""Which map of a class is to be believed: the held-out digits, with their patches blanked in the order of each map.

    python benchmarks/class_maps.py

The share of the label that the model gave at first is averaged over the whole way, from one blanked patch to all. With
a good map it falls fast where the patches that matter most go first, and stays where those that matter least do.

Legend: B images, K classes, P patches, h and w rows and columns of patches, E model width.
Source: Samek et al. 2017, "Evaluating the Visualization of What a Deep Neural Network Has Learned" (the measure); Zhou
et al. 2016, "Learning Deep Features for Discriminative Localization" (the class activation map).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from models.checkpoints.resolve import checkpoint_named  # noqa: E402
from models.explain.images import class_gradient_rollout, class_rollout  # noqa: E402
from models.explain.windows import received_attention  # noqa: E402
from models.train.digit_data import held_out  # noqa: E402

SIDE, PATCHES = 2, 4  # pixels of a patch, patches a side


def main() -> None:
    """Measure both classifiers and print a table."""
    torch.manual_seed(0)
    images = torch.from_numpy(held_out()[0])
    sys.stdout.write("| model | map | most first ↓ | least first ↑ |\n|---|---|---|---|\n")
    for name in ("digits-vit", "digits-swin"):
        model = checkpoint_named(name).model
        with torch.no_grad():
            labels = model(images).argmax(1)
            maps = of_vit(model, images, labels) if name == "digits-vit" else of_swin(model, images, labels)
            maps |= {
                "occlusion": occlusion(model, images, labels),
                "ink": F.avg_pool2d(images, SIDE)[:, 0],
                "random": torch.rand(len(images), PATCHES, PATCHES),
            }
            for title, one in maps.items():
                most, least = (kept(model, images, labels, one, first) for first in (True, False))
                sys.stdout.write(f"| {name} | {title} | {most:.3f} | {least:.3f} |\n")


def of_vit(model: Any, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """Rollouts, and the head on each patch's last vector: the logit lens."""
    patches_BPE = model.patches(images)
    tokens = model.positions(torch.cat([model.class_token.expand(len(images), -1, -1), patches_BPE], dim=1))
    logits_BPK = model.head(model.norm(model.blocks(tokens)[:, 1:]))
    with torch.enable_grad():
        by_gradient = class_gradient_rollout(model, images, labels)
    return {
        "rollout": class_rollout(model, images),
        "gradient rollout": by_gradient,
        "class activation": of_label(logits_BPK, labels).unflatten(1, (PATCHES, PATCHES)),
    }


def of_swin(model: Any, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """What windows of the first layer receive, and the head on each place of the last map: logits are their mean."""
    grid_BhwE = model.patch_norm(model.patches(images)).unflatten(1, (PATCHES, PATCHES))
    logits_BhwK = model.head(model.norm(model.stages(grid_BhwE)))
    torch.testing.assert_close(logits_BhwK.mean((1, 2)), model(images), atol=1e-4, rtol=0)
    active_Bhw = of_label(logits_BhwK.flatten(1, 2), labels).unflatten(1, tuple(logits_BhwK.shape[1:3]))
    return {
        "windows, layer 1": next(iter(received_attention(model, images).values())),
        "class activation": F.interpolate(active_Bhw[:, None], (PATCHES, PATCHES), mode="bilinear")[:, 0],
    }


def of_label(logits_BPK: Tensor, labels: Tensor) -> Tensor:
    """The logits of each image's label, ``[B, P]``."""
    return logits_BPK.gather(2, labels[:, None, None].expand(-1, logits_BPK.shape[1], 1))[..., 0]


def occlusion(model: Any, images: Tensor, labels: Tensor) -> Tensor:
    """What the label's logit loses where a patch is blanked."""
    whole_B1 = model(images).gather(1, labels[:, None])
    drops = []
    for row in range(PATCHES):
        for column in range(PATCHES):
            blanked = images.clone()
            blanked[..., row * SIDE : (row + 1) * SIDE, column * SIDE : (column + 1) * SIDE] = 0
            drops.append(whole_B1 - model(blanked).gather(1, labels[:, None]))
    return torch.cat(drops, dim=1).unflatten(1, (PATCHES, PATCHES))


def kept(model: Any, images: Tensor, labels: Tensor, maps: Tensor, most_first: bool) -> float:
    """The mean share of the label while patches are blanked one after another."""
    order_BP = maps.flatten(1).argsort(1, descending=most_first)
    blanked, shares = images.clone(), []
    patches_BPSS = blanked.unfold(2, SIDE, SIDE).unfold(3, SIDE, SIDE)[:, 0].reshape(len(images), -1, SIDE, SIDE)
    for place in range(PATCHES * PATCHES):
        patches_BPSS[torch.arange(len(images)), order_BP[:, place]] = 0
        rows = patches_BPSS.view(len(images), PATCHES, PATCHES, SIDE, SIDE).transpose(2, 3)
        blanked = rows.reshape(len(images), 1, PATCHES * SIDE, PATCHES * SIDE)
        shares.append(model(blanked).softmax(-1).gather(1, labels[:, None]).mean().item())
    return sum(shares) / len(shares)


if __name__ == "__main__":
    main()
