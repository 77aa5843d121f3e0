"""Presets of the captioners from pixels: CPTR of Liu et al. 2021, section 3.1; GPT-2 behind a ViT; TrOCR base.

CPTR's vocabulary is not printed; here it is as large as that of Show, Attend and Tell. The sizes of the second are
ViT-B/16 and GPT-2 small, as in Hugging Face's ``nlpconnect/vit-gpt2-image-captioning``; TrOCR base is that of Li et al.
2021, table 2, with the settings of transformers' ``TrOCRConfig``.
"""

from dataclasses import replace
from typing import Any

from models.families.vision_encoder import VisionEncoderConfig
from models.families.vision_seq2seq import VisionSeq2SeqConfig
from models.layers.conv_grid import ConvGridConfig
from models.presets.preset import Preset

_TINY_ENCODER: dict[str, Any] = {
    "image_size": 12,
    "patch_size": 4,
    "layers": 2,
    "width": 16,
    "heads": 2,
    "mlp_width": 32,
}
_TINY: dict[str, Any] = {
    "vocabulary_size": 31,
    "decoder_blocks": 2,
    "width": 16,
    "heads": 2,
    "mlp_width": 32,
    "max_target_length": 8,
    "pad_token": 0,
    "start_token": 1,
    "end_token": 2,
}


def _tiny(config: VisionSeq2SeqConfig, encoder: dict[str, Any], **changes: Any) -> VisionSeq2SeqConfig:
    return replace(config, **_TINY, encoder=replace(config.encoder, **{**_TINY_ENCODER, **encoder}), **changes)


_CPTR = VisionSeq2SeqConfig(encoder=VisionEncoderConfig(image_size=384), vocabulary_size=10_000, tied=False)
_VIT_GPT2 = VisionSeq2SeqConfig(
    encoder=VisionEncoderConfig(norm_eps=1e-12),
    vocabulary_size=50_257,
    decoder_blocks=12,
    max_target_length=1024,
    norm_order="pre",
    activation="gelu_tanh",
    positions="learned",
    scaled_embedding=False,
    pad_token=50_256,
    start_token=50_256,
    end_token=50_256,
)
_TROCR_BASE = VisionSeq2SeqConfig(
    encoder=VisionEncoderConfig(image_size=384, qkv_bias=False, norm_eps=1e-12),
    vocabulary_size=50_265,
    decoder_blocks=12,
    width=1024,
    heads=16,
    mlp_width=4096,
    max_target_length=512,
    activation="gelu",
    positions="learned",
    position_offset=2,
    scaled_embedding=False,
    embedding_norm=True,
    pad_token=1,
    start_token=2,
    end_token=2,
)
_CPTR_MODELS = {"captioner-cptr": _CPTR, "captioner-cptr-tiny": _tiny(_CPTR, {})}
_GRID = {"patch_size": None, "grid": ConvGridConfig(widths=(6, 10), depths=(1, 2))}
_GRID_MODELS = {"captioner-cnn-tiny": _tiny(_CPTR, _GRID)}
_GPT2_MODELS = {
    "captioner-vit-gpt2": _VIT_GPT2,
    "captioner-vit-gpt2-tiny": _tiny(_VIT_GPT2, {"width": 12}, projected_memory=True),
}
_TROCR_MODELS = {"trocr-base": _TROCR_BASE, "trocr-tiny": _tiny(_TROCR_BASE, {"width": 12})}
PRESETS = {
    name: Preset(family="vision_seq2seq", config=config, compared_with=oracle)
    for oracle, configs in (
        ("transformers ViT, torch.nn", _CPTR_MODELS),
        ("a loop in NumPy, torch.nn", _GRID_MODELS),
        ("transformers ViT with GPT-2", _GPT2_MODELS),
        ("transformers ViT with TrOCR", _TROCR_MODELS),
    )
    for name, config in configs.items()
}
