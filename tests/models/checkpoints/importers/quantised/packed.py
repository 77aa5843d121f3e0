"""Folders in integers, packed one number at a time as the formats are published, beside what they stand for.

Nothing of the importer's is used: a word is built by shifts, a row after the other, from levels drawn at random.
"""

import json

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from tests.models.checkpoints.importers.saved import VOCABULARY, rewrite, saved

SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "max_position_embeddings": 40,
}
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def llama(folder, **settings):
    return saved(LlamaForCausalLM(LlamaConfig(**{**SIZES, **settings})), folder)


def qwen2(folder, **settings):
    return saved(Qwen2ForCausalLM(Qwen2Config(**{**SIZES, **settings})), folder)


def gpt2(folder):
    sizes = {"vocab_size": VOCABULARY, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 40}
    return saved(GPT2LMHeadModel(GPT2Config(**sizes)), folder)


def words(levels, bits, order=None):
    """Rows of unsigned levels as rows of int32 words."""
    of_word, rows = 32 // bits, []
    for row in levels:
        numbers = []
        for at in range(0, len(row), of_word):
            word = 0
            for place in range(of_word):
                word |= int(row[at + (order[place] if order else place)]) << (bits * place)
            numbers.append(word)
        rows.append(numbers)
    return torch.from_numpy(np.array(rows, np.uint32).view(np.int32))


class Matrix:
    """Random levels [out, in], zero points and scales [out, groups] of one matrix, and what they stand for."""

    def __init__(self, shape, bits, group, seed, symmetric=True):
        random, (out, columns) = np.random.default_rng(seed), shape
        self.bits, self.group = bits, columns if group == -1 else group
        groups = columns // self.group
        self.levels = random.integers(0, 2**bits, shape)
        middle = np.full((out, groups), 2 ** (bits - 1))
        self.zero = middle if symmetric else random.integers(1, 16, (out, groups))
        self.scale = ((random.random((out, groups)) + 0.5) * 2.0 ** (1 - bits) / 5).astype(np.float16)

    def dequantised(self):
        numbers = np.empty(self.levels.shape, np.float64)
        for column in range(numbers.shape[1]):
            group = column // self.group
            whole = self.levels[:, column] - self.zero[:, group]
            numbers[:, column] = whole * self.scale[:, group].astype(np.float64)
        assert (numbers.astype(np.float32) == numbers).all()  # exact: 11 bits times 8
        return torch.from_numpy(numbers.astype(np.float32))

    def signed(self):
        """What our int4 or int8 holds: symmetric levels around zero, others as they are; and zero points."""
        symmetric = (self.zero == 2 ** (self.bits - 1)).all()
        return self.levels - 2 ** (self.bits - 1) if symmetric else self.levels, None if symmetric else self.zero


def gptq_tensors(matrix, less=1):
    columns = matrix.levels.shape[1]
    return {
        "qweight": words(matrix.levels.T.T, matrix.bits).T.contiguous(),
        "qzeros": words((matrix.zero - less).T, matrix.bits),
        "scales": torch.from_numpy(matrix.scale.T.copy()),
        "g_idx": torch.arange(columns, dtype=torch.int32) // matrix.group,
    }


def awq_tensors(matrix):
    return {
        "qweight": words(matrix.levels.T, 4, AWQ_ORDER),
        "qzeros": words(matrix.zero.T, 4, AWQ_ORDER),
        "scales": torch.from_numpy(matrix.scale.T.copy()),
    }


def packed_tensors(matrix):
    found = {
        "weight_packed": words(matrix.levels, matrix.bits),
        "weight_scale": torch.from_numpy(matrix.scale),
        "weight_shape": torch.tensor(matrix.levels.shape),
    }
    if (matrix.zero != 2 ** (matrix.bits - 1)).any():
        found["weight_zero_point"] = words(matrix.zero.T, matrix.bits).T.contiguous()
    return found


def plain_tensors(matrix):
    return {
        "weight": torch.from_numpy((matrix.levels - 128).astype(np.int8)),
        "weight_scale": torch.from_numpy(matrix.scale),
    }


def gptq_config(bits=4, group=32, **changes):
    return {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": False, "sym": True, **changes}


def awq_config(group=32, **changes):
    return {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True, "version": "gemm", **changes}


def compressed_config(bits=4, group=32, form="pack-quantized", **changes):
    weights = {"num_bits": bits, "type": "int", "symmetric": True, "strategy": "group", "group_size": group}
    if group == -1:
        weights |= {"strategy": "channel", "group_size": None}
    one = {"targets": ["Linear"], "weights": {**weights, **changes}, "input_activations": None}
    return {
        "quant_method": "compressed-tensors",
        "format": form,
        "config_groups": {"group_0": one},
        "ignore": ["lm_head"],
        "quantization_status": "compressed",
        "kv_cache_scheme": None,
    }


SCHEMES = {
    "GPTQ": (4, 32, True, gptq_tensors, gptq_config()),
    "GPTQ, a group a row": (4, -1, True, gptq_tensors, gptq_config(group=-1)),
    "GPTQ, 8 bits": (8, 32, True, gptq_tensors, gptq_config(bits=8)),
    "GPTQ, zero points": (4, 32, False, gptq_tensors, gptq_config(sym=False)),
    "GPTQ, the second format": (
        *(4, 64, False, lambda matrix: gptq_tensors(matrix, less=0)),
        gptq_config(group=64, checkpoint_format="gptq_v2"),
    ),
    "compressed-tensors": (4, 32, True, packed_tensors, compressed_config()),
    "compressed-tensors, zero points": (4, 32, False, packed_tensors, compressed_config(symmetric=False)),
    "compressed-tensors, 8 bits": (8, -1, True, packed_tensors, compressed_config(8, -1)),
    "compressed-tensors, groups of 8 bits": (8, 32, True, packed_tensors, compressed_config(8, 32)),
    "compressed-tensors, plain": (8, -1, True, plain_tensors, compressed_config(8, -1, "int-quantized")),
    "AWQ": (4, 32, False, awq_tensors, awq_config()),
}
"""What a scheme is called → bits, group, whether it is symmetric, how a matrix is packed, and the configuration."""


def quantised(folder, scheme, turned=False):
    """Put the matrices of a folder's blocks in integers, in place; beside it, the numbers that they stand for.

    Returns:
        The folder of those numbers, and the matrices by the names of their modules.
    """
    bits, group, symmetric, pack, config = SCHEMES[scheme]
    tensors, matrices = load_file(folder / "model.safetensors"), {}
    plain = folder.with_name(folder.name + "-dequantised")
    plain.mkdir()
    for path in folder.iterdir():
        if path.suffix == ".json":
            (plain / path.name).write_bytes(path.read_bytes())
    dequantised = dict(tensors)
    in_blocks = [n for n, one in tensors.items() if one.ndim == 2 and ("layers." in n or ".h." in n)]
    for seed, name in enumerate(sorted(in_blocks)):
        shape = tensors.pop(name).shape
        matrix = Matrix(tuple(shape[::-1]) if turned else tuple(shape), bits, group, seed, symmetric)
        module = name.removesuffix(".weight")
        matrices[module] = matrix
        tensors |= {f"{module}.{part}": tensor.contiguous() for part, tensor in pack(matrix).items()}
        dequantised[name] = (matrix.dequantised().T if turned else matrix.dequantised()).contiguous()
    save_file(tensors, folder / "model.safetensors")
    save_file(dequantised, plain / "model.safetensors", metadata={"format": "pt"})
    rewrite(folder / "config.json", quantization_config=config)
    assert json.loads((folder / "config.json").read_text())["quantization_config"] == config
    return plain, matrices
