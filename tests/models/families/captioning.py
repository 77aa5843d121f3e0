"""Tiny captioners of every kind, and a batch of images with their captions."""

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from models.families.vision_encoder import VisionEncoderConfig
from models.families.vision_seq2seq import VisionSeq2Seq, VisionSeq2SeqConfig
from models.layers.conv_grid import ConvGridConfig
from tests.models.agreement import randomised

ENCODER = VisionEncoderConfig(image_size=12, patch_size=4, channels=3, layers=2, width=12, heads=2, mlp_width=20)
GRID = {"patch_size": None, "grid": ConvGridConfig(widths=(4, 5), depths=(1, 2))}
CONFIG = VisionSeq2SeqConfig(
    encoder=ENCODER,
    vocabulary_size=19,
    decoder_blocks=2,
    width=12,
    heads=2,
    mlp_width=24,
    max_target_length=14,
    tied=False,
)
GPT2 = {
    "norm_order": "pre",
    "activation": "gelu_tanh",
    "positions": "learned",
    "scaled_embedding": False,
    "tied": True,
}
TROCR = {
    "encoder": dataclasses.replace(ENCODER, qkv_bias=False),
    "width": 16,
    "activation": "gelu",
    "positions": "learned",
    "position_offset": 2,
    "scaled_embedding": False,
    "embedding_norm": True,
    "tied": True,
    "pad_token": 1,
    "start_token": 2,
}
VARIANTS = {
    "CPTR": {},
    "CNN and Transformer": {"encoder": dataclasses.replace(ENCODER, **GRID)},
    "GPT-2": GPT2,
    "GPT-2 of another width": {**GPT2, "width": 16, "projected_memory": True},
    "TrOCR": TROCR,
    "TrOCR, scaled and without a norm": {**TROCR, "scaled_embedding": True, "embedding_norm": False, "tied": False},
}
ROWS, TARGET_LENGTH = 3, 6


@dataclass(frozen=True)
class ImageBatch:
    """What goes into one teacher-forced pass; an image has no padding."""

    pixels: Tensor
    target_ids: Tensor
    source_mask: None = None

    @property
    def source(self) -> tuple[Tensor]:
        """What is encoded."""
        return (self.pixels,)

    def row(self, number: int) -> "ImageBatch":
        """One row as a batch of its own."""
        return ImageBatch(self.pixels[[number]], self.target_ids[[number]])

    def replaced(self, **parts: Tensor) -> "ImageBatch":
        """The same batch with other parts."""
        return dataclasses.replace(self, **parts)


def captioner(dtype: torch.dtype = torch.float64, **changes: object) -> VisionSeq2Seq:
    """A model of the tiny configuration with random weights."""
    torch.manual_seed(0)
    return randomised(VisionSeq2Seq(dataclasses.replace(CONFIG, **changes)), dtype)


def image_batch(dtype: torch.dtype = torch.float64, target_length: int = TARGET_LENGTH) -> ImageBatch:
    """Three images, and captions that begin with the start token."""
    generator = torch.Generator().manual_seed(1)
    pixels = torch.randn(ROWS, 3, 12, 12, generator=generator)
    target_ids = torch.randint(3, 17, (ROWS, target_length), generator=generator)
    target_ids[:, 0] = CONFIG.start_token
    return ImageBatch(pixels.to(dtype), target_ids)
