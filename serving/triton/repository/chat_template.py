"""A checkpoint's chat template → parameters of its configuration, by which a client renders conversations."""

import json
from pathlib import Path
from typing import Any

from attendant.errors import ArtefactError
from attendant.records import parse_json
from attendant.tokenizer import TOKENIZER_NAME

FILE_NAME = "chat_template.jinja"
CHAT_TEMPLATE = "chat_template"
CONTROL_TOKENS = "control_tokens"


def add_chat_template(config: Any, artefact: Path) -> None:
    """Write the template, if there is one, and the special tokens that nobody but it may write.

    Args:
        config: Triton's ``ModelConfig`` message.
        artefact: the folder.

    Raises:
        ArtefactError: there is a template, and no readable ``tokenizer.json``.
    """
    path = artefact / FILE_NAME
    if path.is_file():
        config.parameters[CHAT_TEMPLATE].string_value = path.read_text(encoding="utf-8")
        config.parameters[CONTROL_TOKENS].string_value = json.dumps(_control_tokens(artefact / TOKENIZER_NAME))


def _control_tokens(path: Path) -> list[str]:
    try:
        added = parse_json(path.read_bytes())["added_tokens"]
        return sorted(token["content"] for token in added if token["special"])
    except (OSError, ValueError, KeyError) as error:
        remedy = "export again with a tokenizer.json beside the chat template"
        raise ArtefactError(f"special tokens in {path}", f"{type(error).__name__}: {error}", remedy) from error
