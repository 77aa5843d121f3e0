"""What a tokenizer puts before and behind every text, and how chat templates call such tokens.

A ``tokenizer.json`` says the first by itself, unless ``tokenizer_config.json`` has the switches ``add_bos_token`` and
``add_eos_token``: where these are there, they decide, and a switch that is absent beside the other is off.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, processors

from models.errors import ArtefactError

_NAMES = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")
_SAMPLE = "a"


def special_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """The texts of special tokens in a ``tokenizer_config.json``, by the names that chat templates know."""
    tokens = {name: config[name] for name in _NAMES if config.get(name)}
    return {name: str(token["content"]) if isinstance(token, dict) else str(token) for name, token in tokens.items()}


def follow_switches(path: Path, config: Mapping[str, Any]) -> None:
    """Change a ``tokenizer.json`` where the switches of a ``tokenizer_config.json`` contradict it.

    Raises:
        ArtefactError: the tokenizer cannot be read, or has no such token.
    """
    switches = {side: config.get(f"add_{side}_token") for side in ("bos", "eos")}
    if not any(isinstance(value, bool) for value in switches.values()):
        return
    try:
        tokenizer = Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except Exception as error:  # the library raises bare Exception for every parse error
        raise ArtefactError(f"a readable tokenizer at {path}", str(error), "copy it again") from error
    texts = special_tokens(config)
    wanted = {side: texts.get(f"{side}_token", "") for side, value in switches.items() if value}
    ids = {side: _id_of(tokenizer, side, text) for side, text in wanted.items()}
    bare = tokenizer.encode(_SAMPLE, add_special_tokens=False).ids
    if tokenizer.encode(_SAMPLE).ids == [*_one(ids, "bos"), *bare, *_one(ids, "eos")]:
        return
    template = [*_one(wanted, "bos"), "$A", *_one(wanted, "eos")]
    tokens = list({wanted[side]: number for side, number in ids.items()}.items())
    tokenizer.post_processor = processors.TemplateProcessing(single=template, special_tokens=tokens)
    tokenizer.save(str(path))


def _one(values: Mapping[str, Any], side: str) -> list[Any]:
    return [values[side]] if side in values else []


def _id_of(tokenizer: Tokenizer, side: str, text: str) -> int:
    number = tokenizer.token_to_id(text)
    if number is None:
        raise ArtefactError(
            f"a {side}_token of the vocabulary, because add_{side}_token is true", repr(text), "correct the tokenizer"
        )
    return int(number)
