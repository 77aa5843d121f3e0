"""GGUF files of tiny models, written by gguf-py, the format's own package, and the numbers that it says they hold."""

import gguf
import numpy as np
import torch
from gguf.quants import dequantize, quantize
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from tests.models.checkpoints.importers.saved import SPECIALS, VOCABULARY, characters, saved

SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 256,
    "max_position_embeddings": 40,
    "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
}
MODELS = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
}
NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
KIND = gguf.GGMLQuantizationType


def theirs_of(folder, architecture="llama", **settings):
    """A model of transformers, every number random, and its folder."""
    config, model = MODELS[architecture]
    sizes = {**SIZES, **({"head_dim": 64} if architecture == "qwen3" else {}), **settings}
    saved(model(config(**sizes)), folder, deviation=0.08)
    return model.from_pretrained(folder, dtype=torch.float32).eval()


def packed(array, kind, seed):
    """The bytes of a matrix: rounded by gguf-py, or, where it has no quantiser, at random with scales of its size."""
    if kind in (KIND.Q8_0, KIND.Q4_0):
        return quantize(array, kind)
    random, (block, size) = np.random.default_rng(seed), gguf.GGML_QUANT_SIZES[kind]
    data = random.integers(0, 256, (*array.shape[:-1], array.shape[-1] // block, size), dtype=np.uint8)
    scale = (random.random((*data.shape[:-1], 1)) * 0.08 / (16 * 32 if kind is KIND.Q4_K else 32 * 64)).astype(
        np.float16
    )
    if kind is KIND.Q4_K:  # the minimum is about half of what levels reach
        data[..., :2], data[..., 2:4] = scale.view(np.uint8), (scale * np.float16(7.5)).view(np.uint8)
    else:
        data[..., 208:] = scale.view(np.uint8)
    return data.reshape(*array.shape[:-1], -1)


def turned(tensor, heads):
    """As llama.cpp turns a head's rows: one of the first half, one of the second, in turns."""
    parts = [
        [head[row], head[row + len(head) // 2]] for head in np.split(tensor, heads) for row in range(len(head) // 2)
    ]
    return np.array([row for pair in parts for row in pair])


def write_gguf(theirs, path, kind, architecture="llama", others=None, metadata=None, factors=None, tokenizer=None):
    """Write a model to a GGUF file, and put the numbers that the file stands for in its place.

    Args:
        theirs: the model.
        path: of the file.
        kind: of the matrices of its blocks.
        architecture: as llama.cpp calls it.
        others: name in the file → the type of a tensor that has another.
        metadata: what is added, or put in the place of what is written otherwise.
        factors: of the rotation's frequencies.
        tokenizer: tokens and merges that are written into the file; a tokenizer.json beside it if not given.
    """
    config, writer = theirs.config, gguf.GGUFWriter(path, architecture)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    writer.add_eos_token_id(1)
    for key, value in (metadata or {}).items():
        writer.kv_data[0].pop(key, None)
        writer.add_key_value(key, value, gguf.GGUFValueType.get_type(value))
    if tokenizer is not None:
        tokens, merges = tokenizer
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("gpt-2")
        writer.add_token_list(tokens)
        writer.add_token_types([3 if token in SPECIALS else 1 for token in tokens])
        writer.add_token_merges(merges)
    if factors is not None:
        writer.add_tensor("rope_freqs.weight", factors)
    state = theirs.state_dict()
    for seed, (name, tensor) in enumerate(state.items()):
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        module, _, last = name.rpartition(".")
        layer, inside = module.removeprefix("model.layers.").split(".", 1) if ".layers." in module else ("", module)
        ours = f"{f'blk.{layer}.' if layer else ''}{NAMES[inside]}.{last}"
        heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}.get(NAMES[inside])
        turn = heads if architecture == "llama" else None
        array = turned(tensor.numpy(), turn) if turn else tensor.numpy()
        stored = (others or {}).get(ours, kind if layer and array.ndim == 2 else KIND.F32)
        if stored is KIND.F32:
            writer.add_tensor(ours, np.ascontiguousarray(array))
            continue
        data = packed(array, stored, seed)
        writer.add_tensor(ours, data, raw_dtype=stored)
        numbers = dequantize(data, stored)
        if turn:
            halves = [np.concatenate((head[::2], head[1::2])) for head in np.split(numbers, turn)]
            numbers = np.concatenate(halves)
        tensor.copy_(torch.from_numpy(np.ascontiguousarray(numbers)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    if tokenizer is None:
        characters().save(str(path.parent / "tokenizer.json"))
    return path
