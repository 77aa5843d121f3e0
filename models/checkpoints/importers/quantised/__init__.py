"""Checkpoints whose matrices are integers already: GPTQ, AWQ, compressed-tensors and GGUF."""
