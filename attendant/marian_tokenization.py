"""Marian's tokenizer: two SentencePiece models, of the source and of the target language, and one vocabulary.

    ids = vocabulary[piece] for every piece of the source model, and the end token

A text may begin with ``>>xxx<<``, the code of the language that is wanted, which is one token.

Source: Kudo and Richardson 2018, "SentencePiece"; the files ``source.spm``, ``target.spm`` and ``vocab.json`` as the
OPUS-MT models have them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from google.protobuf.message import DecodeError
from sentencepiece import SentencePieceProcessor, sentencepiece_model_pb2

from attendant.errors import ArtefactError, InputError
from attendant.text_bounds import most_characters, require_short, shortened
from attendant.tokenizer import MARIAN_FILES, UNKNOWN_TOKEN, SpecialText, Unknown, empty_text, within
from attendant.tokenizer_growth import require_bounded_charsmap

_END_TOKEN, _PAD_TOKEN = "</s>", "<pad>"
_LANGUAGE = re.compile(r">>.*?<<", re.DOTALL)


class MarianTokenizer:
    """Texts of one language in, texts of another out."""

    def __init__(
        self,
        source: SentencePieceProcessor,
        target: SentencePieceProcessor,
        vocabulary: Mapping[str, int],
        unknown: Unknown = "refuse",
    ) -> None:
        self._source, self._target, self._vocabulary = source, target, vocabulary
        self._pieces = {number: piece for piece, number in vocabulary.items()}
        self._widest = max(map(len, vocabulary), default=0)
        self._end, self._unknown = vocabulary[_END_TOKEN], vocabulary[UNKNOWN_TOKEN]
        self._specials = {vocabulary.get(token) for token in (_END_TOKEN, UNKNOWN_TOKEN, _PAD_TOKEN)}
        self._refuses = unknown == "refuse"
        self._special = re.compile("(" + "|".join((_END_TOKEN, UNKNOWN_TOKEN, _PAD_TOKEN)) + ")")

    @classmethod
    def load(cls, folder: Path, unknown: Unknown = "refuse") -> MarianTokenizer:
        """Read the three files.

        Raises:
            ArtefactError: one is missing, cannot be read, or the vocabulary lacks the end or the unknown token.
        """
        source, target, vocabulary = (folder / name for name in MARIAN_FILES)
        try:
            entries = {str(piece): int(number) for piece, number in json.loads(vocabulary.read_bytes()).items()}
            return cls(_model(source), _model(target), entries, unknown)
        except (
            OSError,
            RuntimeError,
            ValueError,
            TypeError,
            AttributeError,
            KeyError,
            DecodeError,
            InputError,
        ) as error:
            raise ArtefactError(
                f"readable {', '.join(MARIAN_FILES)} in {folder}", repr(error), "copy or export them again"
            ) from error

    def encode(self, text: str, longest: int) -> list[int]:
        """Token ids of a text and the end token.

        Raises:
            InputError: the text is empty, is longer than ``longest`` tokens, or has pieces outside the vocabulary.
        """
        require_short(text, longest, self._widest, lambda beginning: len(self._source.encode(beginning)))
        parts = self._special.split(text) if isinstance(text, SpecialText) else [text]
        pieces = [
            piece for place, part in enumerate(parts) for piece in ([part] if place % 2 else self._pieces_of(part))
        ]
        if not pieces:
            raise empty_text(text)
        strangers = sorted({piece for piece in pieces if self._id(piece) == self._unknown})
        if strangers and self._refuses:
            raise InputError(
                f"text of the model's vocabulary of {len(self._vocabulary)} pieces",
                f"{strangers} in {shortened(text)!r}",
                "remove or replace those characters",
            )
        return within([*map(self._id, pieces), self._end], longest, text)

    byte_tokens = frozenset[int]()

    def offsets(self, text: str) -> list[int]:
        """None: the pieces of a source are not kept apart, and no prompt is scored by this tokenizer."""
        return []

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of token ids of the target language, without special tokens."""
        known = [self._pieces.get(number, UNKNOWN_TOKEN) for number in token_ids if number not in self._specials]
        text: str = self._target.decode_pieces([piece for piece in known if piece != UNKNOWN_TOKEN])
        return text.strip()

    def token_bytes(self, token: int) -> bytes:
        """What one token stands for in the midst of a text, in UTF-8."""
        return self._pieces.get(token, "").replace("▁", " ").encode()

    def most_characters(self, longest: int) -> int:
        """How many characters a text of at most so many tokens may have."""
        return most_characters(longest, self._widest)

    def _pieces_of(self, text: str) -> list[str]:
        code = _LANGUAGE.match(text)
        language, said = ([code.group()], text[code.end() :]) if code else ([], text)
        return [*language, *self._source.encode(said, out_type=str)]

    def _id(self, piece: str) -> int:
        return self._vocabulary.get(piece, self._unknown)


def _model(path: Path) -> SentencePieceProcessor:
    # Read here: the library takes an empty file, or none, for a model that is to come.
    processor, data = SentencePieceProcessor(), path.read_bytes()
    processor.LoadFromSerializedProto(data)
    model = sentencepiece_model_pb2.ModelProto.FromString(data)  # type: ignore[attr-defined]
    for spec in (model.normalizer_spec, model.denormalizer_spec):
        require_bounded_charsmap(spec.precompiled_charsmap)
    return processor
