"""DeiT with distillation: a ViT with a second token, which is trained to say what a teacher says, and its own head.

    z_0 = [class; distillation; patch_1 E … patch_P E] + E_pos        y = (head(z_class) + head'(z_distillation)) / 2

DeiT without distillation is the ViT itself (:mod:`models.families.vit`), trained in another way.

Legend: B batch, C channels, P patches, E model width, K classes.
Source: Touvron et al. 2021, "Training data-efficient image transformers & distillation through attention", section 4
and figure 2. The paper adds the softmax of the two heads; its code, like timm and transformers, averages their logits.
"""

import torch
from torch import Tensor, nn

from models.families.family import Family
from models.families.vit import ViTConfig, classifier_head, vision_blocks
from models.layers.patch_embed import PatchEmbed
from models.layers.positional import LearnedPositions

TOKENS_IN_FRONT = 2


class DistilledViT(nn.Module):
    """Image classifier over patches, with a class token and a distillation token in front of them."""

    attends_over = "tokens"

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.config = config
        self.patches = PatchEmbed(config.image_size, config.patch_size, config.channels, config.width)
        self.class_token = nn.Parameter(torch.zeros(1, 1, config.width))
        self.distillation_token = nn.Parameter(torch.zeros(1, 1, config.width))
        count = TOKENS_IN_FRONT + self.patches.count
        self.positions = LearnedPositions(count, config.width, config.position_deviation)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = vision_blocks(config)
        self.norm = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.head = classifier_head(config)
        self.distillation_head = classifier_head(config)

    def both(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """What each head says, to be trained on the labels and on the teacher: logits ``[B, K]`` each."""
        patches_BPE = self.patches(pixels)
        front_12E = torch.cat([self.class_token, self.distillation_token], dim=1)
        front_B2E = front_12E.expand(pixels.shape[0], -1, -1)
        tokens = self.dropout(self.positions(torch.cat([front_B2E, patches_BPE], dim=1)))
        read = self.norm(self.blocks(tokens))
        return self.head(read[:, 0]), self.distillation_head(read[:, 1])

    def forward(self, pixels: Tensor) -> Tensor:
        """Classify float images ``[B, C, image_size, image_size]``: the mean of both heads' logits, ``[B, K]``."""
        by_class_BK, by_distillation_BK = self.both(pixels)
        return (by_class_BK + by_distillation_BK) / 2


FAMILY = Family(name="deit", graphs="classify", config=ViTConfig, build=DistilledViT)
