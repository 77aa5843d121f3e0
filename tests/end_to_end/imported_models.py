"""Every architecture that can be imported, saved by transformers with random weights: tiny, and as wide as published.

Tied and untied embeddings, and every supported kind of rotary scaling, are spread over them.
"""

from dataclasses import dataclass, field

import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MarianConfig,
    MarianMTModel,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from tests.models.checkpoints.importers.saved import VOCABULARY, saved

TOKENS = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 3}


@dataclass(frozen=True)
class Kind:
    """One architecture with its settings.

    ``tiny`` and ``wide`` are what differs between the small model and the one of published width.
    """

    model: type
    config: type
    settings: dict
    tiny: dict
    wide: dict
    task: str = "generate"
    start: dict = field(default_factory=dict)

    def save(self, folder, wide=False):
        """Write a random model and its tokenizer; the folder."""
        torch.manual_seed(0)
        sizes = self.wide if wide else {"vocab_size": VOCABULARY, **self.tiny}
        theirs = self.model(self.config(**TOKENS, **self.start, **self.settings, **sizes))
        # As large as in the tiny model they would make float32 itself differ by 1e-2 in T5, whose scores have no scale.
        return saved(theirs.eval(), folder, deviation=0.02 if wide else 0.15)


def llama_sizes(hidden, heads, groups, inner, layers, **others):
    return {
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": groups,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        **others,
    }


TINY_LLAMA = llama_sizes(32, 4, 2, 48, 2, max_position_embeddings=64)
WIDE_LLAMA = llama_sizes(2048, 32, 8, 8192, 1, vocab_size=32000, max_position_embeddings=256)
DECODER_STARTS = {"decoder_start_token_id": 0, "forced_eos_token_id": None}
TINY_SEQ2SEQ = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 64,
}
TINY_T5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}


def rope(kind, **settings):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10000.0, **settings}}


LLAMA_3 = rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)
KINDS = {
    "gpt2": Kind(
        GPT2LMHeadModel,
        GPT2Config,
        {},
        tiny={"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},
        wide={},
    ),
    "llama": Kind(LlamaForCausalLM, LlamaConfig, {}, TINY_LLAMA, WIDE_LLAMA),
    "llama-linear-tied": Kind(
        LlamaForCausalLM,
        LlamaConfig,
        {**rope("linear", factor=2.0), "tie_word_embeddings": True},
        TINY_LLAMA,
        WIDE_LLAMA,
    ),
    "llama-dynamic": Kind(LlamaForCausalLM, LlamaConfig, rope("dynamic", factor=2.0), TINY_LLAMA, WIDE_LLAMA),
    "llama-3-tied": Kind(
        LlamaForCausalLM, LlamaConfig, {**LLAMA_3, "tie_word_embeddings": True}, TINY_LLAMA, WIDE_LLAMA
    ),
    "mistral": Kind(
        MistralForCausalLM,
        MistralConfig,
        {"sliding_window": 6},
        TINY_LLAMA,
        llama_sizes(4096, 32, 8, 14336, 1, vocab_size=4096, max_position_embeddings=256),
    ),
    "qwen2-tied": Kind(
        Qwen2ForCausalLM,
        Qwen2Config,
        {"tie_word_embeddings": True},
        TINY_LLAMA,
        llama_sizes(896, 14, 2, 4864, 2, vocab_size=32000, max_position_embeddings=256),
    ),
    "qwen3": Kind(
        Qwen3ForCausalLM,
        Qwen3Config,
        {},
        {**TINY_LLAMA, "head_dim": 16},
        llama_sizes(1024, 16, 8, 3072, 2, vocab_size=32000, max_position_embeddings=256, head_dim=128),
    ),
    "marian": Kind(
        MarianMTModel,
        MarianConfig,
        {"activation_function": "swish", "scale_embedding": True, "bad_words_ids": [[0]]},
        TINY_SEQ2SEQ,
        {
            **TINY_SEQ2SEQ,
            "d_model": 512,
            "encoder_layers": 6,
            "decoder_layers": 6,
            "encoder_attention_heads": 8,
            "decoder_attention_heads": 8,
            "encoder_ffn_dim": 2048,
            "decoder_ffn_dim": 2048,
            "vocab_size": 58101,
        },
        task="translate",
        start=DECODER_STARTS,
    ),
    "bart-untied": Kind(
        BartForConditionalGeneration,
        BartConfig,
        {"tie_word_embeddings": False},
        TINY_SEQ2SEQ,
        {
            **TINY_SEQ2SEQ,
            "d_model": 768,
            "encoder_attention_heads": 12,
            "decoder_attention_heads": 12,
            "encoder_ffn_dim": 3072,
            "decoder_ffn_dim": 3072,
            "vocab_size": 50265,
        },
        task="translate",
        start={**DECODER_STARTS, "decoder_start_token_id": 1, "forced_bos_token_id": 7},
    ),
    "t5": Kind(
        T5ForConditionalGeneration,
        T5Config,
        {},
        TINY_T5,
        {},
        task="translate",
        start={"decoder_start_token_id": 0},
    ),
    "t5-gated": Kind(
        T5ForConditionalGeneration,
        T5Config,
        {"feed_forward_proj": "gated-gelu"},
        {**TINY_T5, "num_decoder_layers": 1},
        {"d_model": 512, "d_kv": 64, "d_ff": 1024, "num_layers": 8, "num_heads": 6},
        task="translate",
        start={"decoder_start_token_id": 0},
    ),
    "bert": Kind(
        BertModel,
        BertConfig,
        {},
        {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 48,
            "max_position_embeddings": 64,
        },
        {},
        task="embed",
    ),
}
