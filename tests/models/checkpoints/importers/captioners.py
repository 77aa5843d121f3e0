"""Folders of tiny captioners as transformers writes them: a ViT before GPT-2 or before TrOCR's decoder."""

import torch
from transformers import (
    DeiTConfig,
    GPT2Config,
    TrOCRConfig,
    VisionEncoderDecoderConfig,
    VisionEncoderDecoderModel,
    ViTConfig,
)
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

from tests.models.checkpoints.importers.saved import VOCABULARY, saved, tokens

IMAGES = {
    "image_size": 12,
    "patch_size": 4,
    "num_channels": 3,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
}
GPT2_SIZES = {"vocab_size": VOCABULARY, "n_embd": 12, "n_layer": 2, "n_head": 3, "n_positions": 20}
TROCR_SIZES = {
    "vocab_size": VOCABULARY,
    "d_model": 12,
    "decoder_layers": 2,
    "decoder_attention_heads": 3,
    "decoder_ffn_dim": 20,
    "max_position_embeddings": 20,
}
SPECIALS = {"decoder_start_token_id": 3, "bos_token_id": 3, "eos_token_id": 1, "pad_token_id": 0}
CROSSED = {"is_decoder": True, "add_cross_attention": True}
DEFAULTS = {
    kind: {
        **SPECIALS,
        "encoder": {"model_type": "vit"},
        "decoder": {"model_type": kind, **SPECIALS, **CROSSED},
    }
    for kind in ("gpt2", "trocr")
}
SIZES = {
    kind: {
        **DEFAULTS[kind],
        "encoder": {"model_type": "vit", **IMAGES},
        "decoder": {**DEFAULTS[kind]["decoder"], **sizes},
    }
    for kind, sizes in {"gpt2": GPT2_SIZES, "trocr": TROCR_SIZES}.items()
}
SIDE = IMAGES["image_size"]


def vit_gpt2(folder, *, encoder=None, **settings):
    """A folder whose decoder is GPT-2."""
    decoder = GPT2Config(**{**GPT2_SIZES, **SPECIALS, **CROSSED, **settings})
    return _folder(folder, encoder, decoder)


def trocr(folder, *, encoder=None, **settings):
    """A folder whose decoder is TrOCR's."""
    decoder = TrOCRConfig(**{**TROCR_SIZES, **SPECIALS, **CROSSED, **settings})
    return _folder(folder, encoder, decoder)


def trocr_small(folder, *, encoder=None, **settings):
    """A folder whose encoder is a DeiT with a distillation token."""
    decoder = TrOCRConfig(**{**TROCR_SIZES, **SPECIALS, **CROSSED, **settings})
    return _folder(folder, encoder, decoder, DeiTConfig)


def _folder(folder, encoder, decoder, kind=ViTConfig):
    images = kind(**{**IMAGES, **(encoder or {})})
    config = VisionEncoderDecoderConfig(encoder=images.to_dict(), decoder=decoder.to_dict(), **SPECIALS)
    # Large enough that in float32 every parameter moves an output.
    saved(VisionEncoderDecoderModel(config), folder, deviation=0.4)
    ViTImageProcessorPil(size={"height": SIDE, "width": SIDE}).save_pretrained(folder)
    return folder


def looking():
    """How ours and how theirs is run on the same images and texts."""
    pixels = torch.randn(2, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    target = tokens(2, 7, seed=1)
    return (
        lambda ours: ours(pixels.to(ours.embedding.weight.dtype), target),
        lambda theirs: theirs(pixel_values=pixels.to(theirs.dtype), decoder_input_ids=target, use_cache=False).logits,
    )
