"""The files of a checkpoint folder, by name."""

from attendant.tokenizer import MARIAN_FILES, TOKENIZER_NAME

CONFIG_NAME = "config.json"
WEIGHTS_NAME = "model.safetensors"
CHAT_TEMPLATE_NAME = "chat_template.jinja"
COMPANIONS = (TOKENIZER_NAME, *MARIAN_FILES, CHAT_TEMPLATE_NAME)
