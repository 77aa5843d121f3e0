"""Tiny models of transformers with random weights: two that go on from a prompt, two that read a source first."""

from functools import cache

import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MarianConfig,
    MarianMTModel,
    VisionEncoderDecoderConfig,
    VisionEncoderDecoderModel,
    ViTConfig,
)

VOCABULARY, START = 12, 2
TOKENS = {"vocab_size": VOCABULARY, "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": START}
SOURCE = [[3, 7, 5, 9]]


def gpt2(**changes):
    return GPT2Config(**TOKENS, n_embd=16, n_layer=1, n_head=2, n_positions=24, **changes)


def llama():
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 24}
    return LlamaConfig(**TOKENS, **sizes, max_position_embeddings=24)


def marian():
    sizes = {"d_model": 16, "max_position_embeddings": 24, "decoder_start_token_id": START}
    blocks = {f"{side}_{what}": value for side in ("encoder", "decoder") for what, value in BLOCKS.items()}
    return MarianConfig(**TOKENS, **sizes, **blocks, forced_eos_token_id=None)


def captioner():
    sizes = {"image_size": 4, "patch_size": 2, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    decoder = gpt2(is_decoder=True, add_cross_attention=True)
    return VisionEncoderDecoderConfig(
        encoder=ViTConfig(**sizes, intermediate_size=24).to_dict(),
        decoder=decoder.to_dict(),
        **{**TOKENS, "decoder_start_token_id": START},
    )


BLOCKS = {"layers": 1, "attention_heads": 2, "ffn_dim": 24}
KINDS = {
    "gpt2": (GPT2LMHeadModel, gpt2),
    "llama": (LlamaForCausalLM, llama),
    "marian": (MarianMTModel, marian),
    "vision-encoder-decoder": (VisionEncoderDecoderModel, captioner),
}
READERS = ("marian", "vision-encoder-decoder")


@cache
def random_model(name):
    """The model, with numbers large enough that its answers differ."""
    kind, config = KINDS[name]
    generator = torch.Generator().manual_seed(3)
    model = kind(config()).eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator)
    return model


def source(name):
    """What the encoder of a reader is given."""
    if name == "marian":
        return {"input_ids": torch.tensor(SOURCE), "attention_mask": torch.ones(1, len(SOURCE[0]), dtype=torch.long)}
    return {"pixel_values": torch.randn(1, 3, 4, 4, generator=torch.Generator().manual_seed(0))}


def subject(name, prompt):
    """What ``generate`` is asked."""
    ids = torch.tensor([prompt])
    return source(name) if name in READERS else {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


@torch.no_grad()
def logits_after(name, rows):
    """The next token's logits after each row of tokens, without a cache, float32 ``[R, V]``."""
    model, ids = random_model(name), torch.tensor(rows)
    if name not in READERS:
        return model(input_ids=ids, use_cache=False).logits[:, -1].numpy()
    given = {key: value.expand(len(rows), *value.shape[1:]) for key, value in source(name).items()}
    return model(**given, decoder_input_ids=ids, use_cache=False).logits[:, -1].numpy()
