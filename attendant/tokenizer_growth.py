"""How much a tokenizer makes of a text: one that a stranger wrote may turn a letter into gigabytes.

Counted from what its parts say of themselves, without tokenizing anything.
Source: the tokenizers library, ``tokenizer.json``: normalizers, pre-tokenizers, post-processors and decoders.
"""

import base64
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from tokenizers import Tokenizer

from attendant.errors import InputError

MOST_GROWTH = 128
"""Characters, or tokens, that one may become."""
WIDEST_ENTRY = 1024
"""Characters of a vocabulary's longest entry."""
MOST_PARTS = 64


def require_bounded_growth(tokenizer: Tokenizer) -> None:
    """Refuse a tokenizer that makes far more of a text than it is.

    Raises:
        InputError: its parts, or an entry of its vocabulary, make too much.
    """
    found = {
        "normalizer, pre_tokenizer and model": [
            *(
                part
                for each in (tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.model)
                for part in _parts(each)
            )
        ],
        "post_processor": _parts(tokenizer.post_processor),
        "decoder": _parts(tokenizer.decoder),
    }
    for name, parts in found.items():
        growth = math.prod(map(_growth, parts))
        if len(parts) > MOST_PARTS or growth > MOST_GROWTH:
            expected = f"{name} of at most {MOST_PARTS} parts, which make at most {MOST_GROWTH} of one"
            raise InputError(expected, f"{len(parts)} parts, which make {growth:.4g}", "use another tokenizer")
    widest = max(map(len, tokenizer.get_vocab()), default=0)
    if widest > WIDEST_ENTRY:
        raise InputError(f"entries of at most {WIDEST_ENTRY} characters", f"one of {widest}", "use another tokenizer")


def require_bounded_charsmap(charsmap: bytes) -> None:
    """Refuse a normalization of SentencePiece that makes far more of a character than it is.

    Raises:
        InputError: it does.
    """
    if (longest := _longest_of_charsmap(charsmap)) > MOST_GROWTH:
        expected = f"a normalization that makes at most {MOST_GROWTH} characters of one"
        raise InputError(expected, str(longest), "use another tokenizer")


def _parts(part: Any) -> list[Mapping[str, Any]]:
    return [] if part is None else list(_leaves(json.loads(part.__getstate__())))


def _leaves(part: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if part["type"] != "Sequence":
        yield part
        return
    for child in next(one for one in part.values() if isinstance(one, list)):
        yield from _leaves(child)


def _growth(part: Mapping[str, Any]) -> float:
    # Unicode's own forms, which make at most 18 characters of one, and not again more of these, count as nothing.
    match part["type"]:
        case "Replace":
            (kind, pattern), content = next(iter(part["pattern"].items())), len(part["content"])
            # An expression may match between any two characters.
            return float(max(1, content / len(pattern)) if kind == "String" and pattern else 1 + content)
        case "Prepend":
            return float(1 + len(part["prepend"]))
        case "BPE":  # what stands beside a letter, each byte of which may be a token
            affixes = part["continuing_subword_prefix"], part["end_of_word_suffix"]
            return float(1 + sum(len((affix or "").encode()) for affix in affixes))
        case "ByteLevel":
            return 4.0
        case "BertNormalizer" | "BertProcessing" | "RobertaProcessing":
            return 3.0
        case "Precompiled":
            return float(_longest_of_charsmap(base64.b64decode(part["precompiled_charsmap"])))
        case "TemplateProcessing":
            tokens = {name: len(one["ids"]) for name, one in part["special_tokens"].items()}
            return float(
                sum(tokens[one["SpecialToken"]["id"]] if "SpecialToken" in one else 1 for one in part["single"])
            )
    return 1.0


def _longest_of_charsmap(charsmap: bytes) -> int:
    # The size of a trie, the trie, and what its leaves stand for, each text with a zero at its end.
    texts = charsmap[4 + int.from_bytes(charsmap[:4], "little") :]
    return max(1, *(len(text.decode(errors="replace")) for text in texts.split(b"\0")))
