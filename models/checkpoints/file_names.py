"""The files of a checkpoint folder, by name."""

from attendant.tokenizer import MARIAN_FILES, TOKENIZER_NAME

CONFIG_NAME = "config.json"
CHECKPOINT_FIELDS = {"name", "family", "config"}
"""By which our ``config.json`` is told from another library's."""
BITS_NAME = "weight_bits"
"""Of a checkpoint's details: how many bits its weights have, where they are integers."""
WEIGHTS_NAME = "model.safetensors"
CHAT_TEMPLATE_NAME = "chat_template.jinja"
COMPANIONS = (TOKENIZER_NAME, *MARIAN_FILES, CHAT_TEMPLATE_NAME)
