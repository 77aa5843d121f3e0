"""A decoder for llama.cpp: python -m benchmarks.peers.export_gguf SOURCE OUT [TYPE], for instance Q4_0.

Its own converter asks for a published tokenizer, which random weights lack; the names are those of its package gguf.
"""

import sys
from pathlib import Path
from typing import Any

import gguf
import llama_cpp
import transformers


def write_gguf(model: Any, path: Path) -> None:
    """Write GPT-2 or Llama in float32."""
    config, is_llama = model.config, model.config.model_type == "llama"
    names = {"llama": gguf.MODEL_ARCH.LLAMA, "gpt2": gguf.MODEL_ARCH.GPT2}
    architecture = names[config.model_type]
    file = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[architecture])
    file.add_vocab_size(config.vocab_size)
    file.add_tokenizer_model("none")
    file.add_context_length(config.max_position_embeddings)
    file.add_embedding_length(config.hidden_size)
    file.add_block_count(config.num_hidden_layers)
    file.add_head_count(config.num_attention_heads)
    if is_llama:
        file.add_feed_forward_length(config.intermediate_size)
        file.add_head_count_kv(config.num_key_value_heads)
        file.add_layer_norm_rms_eps(config.rms_norm_eps)
        file.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    else:
        file.add_feed_forward_length(4 * config.hidden_size)
        file.add_layer_norm_eps(config.layer_norm_epsilon)
    mapped = gguf.get_tensor_name_map(architecture, config.num_hidden_layers)
    tensors = dict(model.state_dict())
    if config.tie_word_embeddings:
        tensors.pop("lm_head.weight")
    for name, tensor in tensors.items():
        values = tensor.numpy()
        if name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")):  # GPT-2's are [in, out]
            values = values.T.copy()
        if is_llama and name.endswith(("q_proj.weight", "k_proj.weight")):  # whose pairs are neighbours there
            heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
            values = values.reshape(heads, 2, -1, values.shape[1]).swapaxes(1, 2).reshape(values.shape)
        new = mapped.get_name(name, try_suffixes=(".weight", ".bias"))
        if new is None:
            raise SystemExit(f"no name for {name}")
        file.add_tensor(new, values)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


def main() -> None:
    """Convert, and quantise where a type is named."""
    source, out = sys.argv[1], Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    whole, path = out / "whole.gguf", out / "model.gguf"
    write_gguf(transformers.AutoModelForCausalLM.from_pretrained(source, dtype="float32").eval(), whole)  # nosec B615
    if len(sys.argv) < 4:
        whole.rename(path)
        return
    settings = llama_cpp.llama_model_quantize_default_params()
    settings.ftype = getattr(llama_cpp, f"LLAMA_FTYPE_MOSTLY_{sys.argv[3]}")
    if llama_cpp.llama_model_quantize(bytes(whole), bytes(path), settings):
        raise SystemExit("llama.cpp could not quantise it")
    whole.unlink()


if __name__ == "__main__":
    main()
