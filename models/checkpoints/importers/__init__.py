"""Checkpoints of other libraries: a Hugging Face folder becomes a folder of ours, tensor by tensor."""
