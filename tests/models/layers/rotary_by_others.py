"""Rotary positions as Llama, GPT-J and a loop over complex numbers compute them, from the settings of our own."""

import numpy as np
import torch
from transformers import LlamaConfig
from transformers.models.gptj import modeling_gptj
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

TRAINED = 64  # length of the context before it is extended


def llama_of(config, size):
    kind = {"none": "default", "ntk": "dynamic"}.get(config.scaling, config.scaling)
    parameters = {"rope_theta": config.theta, "rope_type": kind}
    if config.scaling != "none":  # "dynamic", at a length of n × the trained one and a factor of 1, is ntk by n
        parameters["factor"] = 1.0 if config.scaling == "ntk" else config.factor
    if config.scaling == "llama3":
        parameters |= {
            "low_freq_factor": config.low_frequency_factor,
            "high_freq_factor": config.high_frequency_factor,
            "original_max_position_embeddings": config.original_length,
        }
    return LlamaRotaryEmbedding(LlamaConfig(head_dim=size, max_position_embeddings=TRAINED, rope_parameters=parameters))


def frequencies_of_llama(config, size):
    theirs = llama_of(config, size)
    if config.scaling == "ntk":  # it adapts to the length that it sees
        theirs(torch.zeros(1), torch.tensor([[int(config.factor) * TRAINED - 1]]))
    return theirs.inv_freq


def rotated_by_llama(config, heads, positions):
    # Its forward casts angles to float32: cosines and sines are taken from its frequencies here.
    angles = positions[..., None].to(heads.dtype) * frequencies_of_llama(config, heads.shape[-1]).to(heads.dtype)
    doubled = torch.cat([angles, angles], dim=-1)
    return apply_rotary_pos_emb(heads, heads, doubled.cos(), doubled.sin())[0]


def rotated_by_gptj(config, heads, positions):
    angles = positions[..., None].to(heads.dtype) * frequencies_of_llama(config, heads.shape[-1]).to(heads.dtype)
    return modeling_gptj.apply_rotary_pos_emb(heads.transpose(1, 2), angles.sin(), angles.cos()).transpose(1, 2)


def rotated_by_complex_numbers(frequencies, heads, positions):
    """Neighbours are the real and imaginary part of a number, which is turned by e^(i p f), one by one."""
    out = np.empty(heads.shape)
    for b, h, s, pair in np.ndindex(*heads.shape[:-1], heads.shape[-1] // 2):
        real, imaginary = heads[b, h, s, 2 * pair : 2 * pair + 2].tolist()
        turned = complex(real, imaginary) * np.exp(1j * positions[b, s].item() * frequencies[pair].item())
        out[b, h, s, 2 * pair : 2 * pair + 2] = turned.real, turned.imag
    return torch.from_numpy(out)
