"""A folder that AIPerf takes for a Hugging Face tokenizer; it counts nothing with it, for the server counts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

_UNKNOWN = "?"
_CONFIG = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": _UNKNOWN}


def tokenizer_folder(given: Path | None, folder: Path) -> Path:
    """The folder.

    Args:
        given: one with tokenizer.json, which is copied; one of single words is made if there is none.
        folder: that is made.
    """
    folder.mkdir(parents=True)
    if given is not None:
        shutil.copy(given / "tokenizer.json", folder)
    else:
        words = Tokenizer(WordLevel({_UNKNOWN: 0, "once": 1, "upon": 2}, unk_token=_UNKNOWN))
        words.pre_tokenizer = Whitespace()
        words.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(_CONFIG) + "\n", encoding="utf-8")
    return folder
