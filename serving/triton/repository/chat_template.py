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
TOOL_CALLS_ID = "tool_calls_token_id"
_TOOL_CALLS = "[TOOL_CALLS]"


def add_chat_template(config: Any, artefact: Path) -> None:
    """Write the template, if there is one, the special tokens that nobody but it may write, and which begins calls.

    Args:
        config: Triton's ``ModelConfig`` message.
        artefact: the folder.

    Raises:
        ArtefactError: there is a template, and no readable ``tokenizer.json``.
    """
    path = artefact / FILE_NAME
    if path.is_file():
        control = _control_tokens(artefact / TOKENIZER_NAME)
        config.parameters[CHAT_TEMPLATE].string_value = path.read_text(encoding="utf-8")
        config.parameters[CONTROL_TOKENS].string_value = json.dumps(sorted(control))
        if _TOOL_CALLS in control:
            config.parameters[TOOL_CALLS_ID].string_value = str(control[_TOOL_CALLS])


def _control_tokens(path: Path) -> dict[str, int]:
    try:
        added = parse_json(path.read_bytes())["added_tokens"]
        return {token["content"]: int(token["id"]) for token in added if token["special"]}
    except (OSError, ValueError, KeyError) as error:
        remedy = "export again with a tokenizer.json beside the chat template"
        raise ArtefactError(f"special tokens in {path}", f"{type(error).__name__}: {error}", remedy) from error
