"""The tokens that a folder adds to its ``tokenizer.json``, numbered and marked as transformers does on loading it.

Source: transformers 5, ``_from_pretrained`` of ``PreTrainedTokenizerBase``, and ``TokenizersBackend``.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer

from attendant.errors import ArtefactError
from attendant.records import read_json
from attendant.tokenizer import require_failure

NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_FLAGS = ("lstrip", "rstrip", "single_word", "normalized")


def read_settings(source: Path) -> dict[str, Any]:
    """What ``tokenizer_config.json`` says; files from before 2023 say a part of it in two others.

    Raises:
        ArtefactError: a file is no JSON.
    """
    settings = _json(source / "tokenizer_config.json")
    if "added_tokens_decoder" in settings:
        return settings
    settings |= _json(source / "special_tokens_map.json")
    specials = {token.content for token in _special_tokens(settings)}
    settings["added_tokens_decoder"] = {
        number: {"content": text, "special": text in specials, "normalized": text not in specials}
        for text, number in _json(source / "added_tokens.json").items()
    }
    return settings


def named_tokens(settings: Mapping[str, Any]) -> dict[str, str]:
    """Name → text of the special tokens that chat templates name, those of the model's own kind among them.

    Raises:
        ArtefactError: one is no text.
    """
    extra = settings.get("extra_special_tokens")
    tokens = {name: settings[name] for name in NAMED if settings.get(name)} | _own_tokens(settings)
    tokens |= extra if isinstance(extra, dict) else {}
    texts: dict[str, Any] = {
        name: token.get("content") if isinstance(token, dict) else token for name, token in tokens.items()
    }
    wrong = [name for name, text in texts.items() if not isinstance(text, str)]
    if wrong:
        expected = f"a text as {wrong[0]} in tokenizer_config.json, or an object with its content"
        raise ArtefactError(expected, repr(tokens[wrong[0]])[:100], "correct it")
    return texts


def add_tokens(path: Path, settings: Mapping[str, Any]) -> None:
    """Add to a ``tokenizer.json`` the tokens that the settings have besides; where there are none it stays as it is.

    Raises:
        ArtefactError: the library cannot read it, or a special token is no text.
        ValueError, TypeError, LookupError: the settings are malformed.
    """
    specials = _special_tokens(settings)
    texts = {token.content for token in specials}
    numbered = sorted((int(number), token) for number, token in settings["added_tokens_decoder"].items())
    added = [_token(token, token.get("special", False) or token["content"] in texts) for _, token in numbered]
    if not added and not specials:
        return
    try:
        tokenizer = Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except BaseException as error:  # the library raises bare Exception for every parse error
        require_failure(error)
        raise ArtefactError(f"a readable tokenizer at {path}", str(error), "copy or export it again") from error
    if tokenizer.add_tokens([*added, *specials]):  # of those that it has already it says nothing
        tokenizer.save(str(path))


def _special_tokens(settings: Mapping[str, Any]) -> list[AddedToken]:
    extra = settings.get("extra_special_tokens") or settings.get("additional_special_tokens") or []
    named_tokens(settings)  # each is a text
    named = [settings[name] for name in NAMED if settings.get(name)]
    listed = extra.values() if isinstance(extra, dict) else extra
    return [_token(value, True) for value in (*named, *_own_tokens(settings).values(), *listed)]


def _own_tokens(settings: Mapping[str, Any]) -> dict[str, Any]:
    others = {name: value for name, value in settings.items() if name.endswith("_token") and name not in NAMED}
    return {name: value for name, value in others.items() if isinstance(value, str | dict)}  # add_bos_token is a bool


def _token(value: Any, special: bool) -> AddedToken:
    fields = value if isinstance(value, dict) else {"content": value}
    flags = {name: fields[name] for name in _FLAGS if name in fields}
    return AddedToken(fields["content"], special=special, **flags)


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        value = read_json(path)
    except (OSError, ValueError) as error:
        raise ArtefactError(f"JSON in {path}", str(error), "copy the file again") from error
    return value if isinstance(value, dict) else {}
