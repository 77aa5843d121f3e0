"""Text to token ids and back: which tokenizer the files beside a checkpoint's weights make."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from attendant.errors import ConfigError
from attendant.marian_tokenization import MarianTokenizer
from attendant.tokenizer import MARIAN_FILES, TOKENIZER_NAME, TextTokenizer, Tokenizer, Unknown

TOKENIZER_FILES = ((TOKENIZER_NAME,), MARIAN_FILES)
"""The kinds of a tokenizer, each with its files."""


def has_tokenizer(files: Collection[str]) -> bool:
    """Whether a tokenizer is among files of these names."""
    return any(set(names) <= set(files) for names in TOKENIZER_FILES)


def load_tokenizer(folder: Path, options: Mapping[str, Any] | None = None) -> TextTokenizer:
    """The tokenizer of a checkpoint or an artefact, of whatever kind its files are.

    Args:
        folder: where ``tokenizer.json`` lies, or Marian's three files.
        options: the detail ``tokenizer``; its ``unknown`` says what becomes of text outside the vocabulary: ``refuse``
            it, the default, or ``keep`` it as unknown tokens, as the model was trained.

    Raises:
        ArtefactError: there is none, or it cannot be read.
        ConfigError: the options are unknown.
    """
    unknown = _unknown_of(options or {})
    if (folder / TOKENIZER_NAME).exists() or not all((folder / name).exists() for name in MARIAN_FILES):
        return Tokenizer.load(folder / TOKENIZER_NAME, unknown)
    return MarianTokenizer.load(folder, unknown)


def _unknown_of(options: Mapping[str, Any]) -> Unknown:
    found = options.get("unknown", "refuse")
    if set(options) - {"unknown"} or found not in ("refuse", "keep"):
        raise ConfigError(
            "tokenizer options {'unknown': 'refuse' or 'keep'}", str(dict(options)), "correct the details"
        )
    return "keep" if found == "keep" else "refuse"
