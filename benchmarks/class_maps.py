"""Which map of a class is to be believed: the held-out digits, with their patches blanked in the order of each map.

The share of the label that the model gave at first is averaged over the whole way, from one blanked patch to all. With
a good map it falls fast where the patches that matter most go first, and stays where those that matter least do.

Legend: B images, K classes, P patches, h and w rows and columns of patches, E model width.
Source: Samek et al. 2017, "Evaluating the Visualization of What a Deep Neural Network Has Learned" (the measure); Zhou
et al. 2016, "Learning Deep Features for Discriminative Localization" (the class activation map).
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.harness.report import Benchmark, table
from models.checkpoints.resolve import checkpoint_named
from models.explain.images import class_gradient_rollout, class_rollout
from models.explain.windows import received_attention
from models.train.digit_data import held_out

BENCHMARK = Benchmark("class-maps", "Which map of a class is to be believed", __doc__)
SIDE, PATCHES = 2, 4  # pixels of a patch, patches a side


def main() -> None:
    args = BENCHMARK.parser().parse_args()
    torch.manual_seed(0)
    images = torch.from_numpy(held_out()[0])
    shares: dict[str, dict[str, tuple[float, float]]] = {}
    for name, maps_of in {"digits-vit": vit_maps, "digits-swin": swin_maps}.items():
        model = checkpoint_named(name).model
        with torch.no_grad():
            labels = model(images).argmax(1)
            maps = maps_of(model, images, labels) | {
                "occlusion": occlusion(model, images, labels),
                "ink": F.avg_pool2d(images, SIDE)[:, 0],
                "random": torch.rand(len(images), PATCHES, PATCHES),
            }
            shares[name] = {
                title: (mean_share(model, images, labels, one, True), mean_share(model, images, labels, one, False))
                for title, one in maps.items()
            }
    rows = [
        [name, title, f"{most:.3f}", f"{least:.3f}"]
        for name, of_model in shares.items()
        for title, (most, least) in of_model.items()
    ]
    BENCHMARK.publish(args, [table(["model", "map", "most first ↓", "least first ↑"], rows)], {"shares": shares})


def vit_maps(model: Any, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """Rollouts, and the head on each patch's last vector: the logit lens."""
    patches_BPE = model.patches(images)
    tokens = model.positions(torch.cat([model.class_token.expand(len(images), -1, -1), patches_BPE], dim=1))
    logits_BPK = model.head(model.norm(model.blocks(tokens)[:, 1:]))
    with torch.enable_grad():
        by_gradient = class_gradient_rollout(model, images, labels)
    return {
        "rollout": class_rollout(model, images),
        "gradient rollout": by_gradient,
        "class activation": logits_of_label(logits_BPK, labels).unflatten(1, (PATCHES, PATCHES)),
    }


def swin_maps(model: Any, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """What windows of the first layer receive, and the head on each place of the last map: logits are their mean."""
    grid_BhwE = model.patch_norm(model.patches(images)).unflatten(1, (PATCHES, PATCHES))
    logits_BhwK = model.head(model.norm(model.stages(grid_BhwE)))
    torch.testing.assert_close(logits_BhwK.mean((1, 2)), model(images), atol=1e-4, rtol=0)
    active_Bhw = logits_of_label(logits_BhwK.flatten(1, 2), labels).unflatten(1, tuple(logits_BhwK.shape[1:3]))
    return {
        "windows, layer 1": next(iter(received_attention(model, images).values())),
        "class activation": F.interpolate(active_Bhw[:, None], (PATCHES, PATCHES), mode="bilinear")[:, 0],
    }


def logits_of_label(logits_BPK: Tensor, labels: Tensor) -> Tensor:
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
    drops_BP = torch.cat(drops, dim=1)
    return drops_BP.view(-1, PATCHES, PATCHES)


def mean_share(model: Any, images: Tensor, labels: Tensor, maps: Tensor, most_first: bool) -> float:
    """The mean share of the label while patches are blanked one after another."""
    order_BP = maps.flatten(1).argsort(1, descending=most_first)
    blanked, shares = images.clone(), []
    patches_BPSS = blanked.unfold(2, SIDE, SIDE).unfold(3, SIDE, SIDE)[:, 0].reshape(len(images), -1, SIDE, SIDE)
    for place in range(PATCHES * PATCHES):
        patches_BPSS[torch.arange(len(images)), order_BP[:, place]] = 0
        rows = patches_BPSS.view(len(images), PATCHES, PATCHES, SIDE, SIDE).transpose(2, 3)
        blanked = rows.reshape(len(images), 1, PATCHES * SIDE, PATCHES * SIDE)
        shares.append(model(blanked).softmax(-1).gather(1, labels[:, None]).mean().item())
    return float(sum(shares) / len(shares))


if __name__ == "__main__":
    main()
