"""The front door: an OpenAI-compatible HTTP gateway in front of Triton servers; no model code in it."""
