"""Every architecture of images that can be imported, saved by its library with random weights: tiny and full-width."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

from tests.models.checkpoints.importers.saved import saved, saved_by_timm
from tests.oracles.timm_models import timm

CLASSES = 12


@dataclass(frozen=True)
class ImageKind:
    """One architecture; ``wide`` is what differs at published width from the library's own defaults."""

    save: Callable[[Path, bool], Path]
    load: Callable[[Path], torch.nn.Module]

    def logits(self, folder, pixels):
        """What the library's own model says to pixels ``[B, ...]``."""
        with torch.no_grad():
            outputs = self.load(folder)(torch.from_numpy(pixels))
        return (outputs if isinstance(outputs, torch.Tensor) else outputs.logits).numpy()


def hugging_face(model, config, tiny, wide=None):
    """A kind that transformers writes and reads."""
    kind, settings = getattr(transformers, model), getattr(transformers, config)

    def save(folder, as_published):
        torch.manual_seed(0)
        sizes = (wide or {}) if as_published else tiny
        theirs = kind(settings(num_labels=CLASSES, **sizes)).eval()
        saved(theirs, folder, deviation=0.02 if as_published else 0.3)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            (folder / name).unlink()
        side = theirs.config.image_size
        ViTImageProcessorPil(size={"height": side, "width": side}, resample=3).save_pretrained(folder)
        return folder

    return ImageKind(save, lambda folder: kind.from_pretrained(folder).eval())


def by_timm(name, **tiny):
    """A kind that timm writes and reads."""

    def save(folder, as_published):
        torch.manual_seed(0)
        sizes = {} if as_published else tiny
        return saved_by_timm(folder, name, num_classes=CLASSES, deviation=0.02 if as_published else 0.3, **sizes)

    return ImageKind(save, lambda folder: timm.create_model(f"local-dir:{folder}", pretrained=True).eval())


TINY = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "image_size": 16,
    "patch_size": 4,
}
TINY_SWIN = {
    "image_size": 24,
    "patch_size": 2,
    "embed_dim": 16,
    "depths": [2, 2],
    "num_heads": [2, 4],
    "window_size": 3,
    "mlp_ratio": 2.0,
}
SWIN_V2_T = {"image_size": 256, "window_size": 8, "depths": [2, 2, 6, 2], "num_heads": [3, 6, 12, 24]}
TINY_TIMM = {"img_size": 16, "patch_size": 4, "embed_dim": 32, "depth": 2, "num_heads": 4}
TINY_TNT = {
    "img_size": 24,
    "patch_size": 8,
    "depth": 2,
    "inner_dim": 8,
    "num_heads_inner": 2,
    "embed_dim": 16,
    "num_heads_outer": 2,
}
TINY_TIMM_SWIN = {
    "img_size": 24,
    "patch_size": 2,
    "embed_dim": 16,
    "depths": (2, 2),
    "num_heads": (2, 4),
    "window_size": 3,
    "mlp_ratio": 2.0,
}
KINDS = {
    "hf-vit": hugging_face("ViTForImageClassification", "ViTConfig", TINY),
    "hf-deit": hugging_face("DeiTForImageClassificationWithTeacher", "DeiTConfig", TINY),
    "hf-swin": hugging_face("SwinForImageClassification", "SwinConfig", TINY_SWIN),
    "hf-swin-v2": hugging_face("Swinv2ForImageClassification", "Swinv2Config", TINY_SWIN, SWIN_V2_T),
    "hf-timesformer": hugging_face(
        "TimesformerForVideoClassification", "TimesformerConfig", {**TINY, "num_frames": 3}, {"num_frames": 8}
    ),
    "timm-vit": by_timm("vit_tiny_patch16_224", **TINY_TIMM),
    "timm-deit": by_timm("deit_tiny_distilled_patch16_224", **TINY_TIMM),
    "timm-hybrid": by_timm("vit_tiny_r_s16_p8_224", img_size=64, embed_dim=32, depth=2, num_heads=4),
    "timm-tnt": by_timm("tnt_s_patch16_224", **TINY_TNT),
    "timm-swin": by_timm("swin_tiny_patch4_window7_224", **TINY_TIMM_SWIN),
    "timm-swin-v2": by_timm("swinv2_tiny_window8_256", **TINY_TIMM_SWIN),
}
