"""Engines over the runners of one loaded artefact, so that their settings can be compared side by side."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from models.errors import AttendantError
from models.manifest import Manifest
from serving.generation.answer import Piece
from serving.generation.captioner import Captioner
from serving.generation.generator import Generator
from serving.generation.guide import Guides
from serving.generation.settings import EngineSettings
from serving.generation.token_rules import TokenRules
from serving.generation.translator import Translator
from serving.generation.writing_model import WritingModel
from serving.generation.written import Written

_KINDS: dict[str, type[WritingModel]] = {"generate": Generator, "translate": Translator, "caption": Captioner}


@dataclass(slots=True)
class Timed:
    """The sink of one request: when its tokens came.

    Attributes:
        asked_s: when it was to arrive, by the monotonic clock.
        times_s: of each token.
        is_over: whether it is answered.
    """

    asked_s: float = field(default_factory=time.monotonic)
    times_s: list[float] = field(default_factory=list)
    is_over: bool = False

    def __call__(self, piece: Piece | AttendantError) -> None:
        """Take a piece.

        Raises:
            AttendantError: it is one.
        """
        if isinstance(piece, AttendantError):
            raise piece
        self.times_s += [time.monotonic()] * len(piece.token_ids)
        self.is_over = self.is_over or piece.is_last


def loaded(folder: Path, settings: EngineSettings, threads: int = 1) -> WritingModel:
    """An artefact that answers with text, by whatever class its task has."""
    manifest = Manifest.read(folder)
    return _KINDS[manifest.task](folder, manifest, threads, settings=settings)


def written_of(model: WritingModel) -> Written:
    """What another engine over the same runners decodes with."""
    rules = TokenRules.of(model.details)
    return Written(
        decoder=model.runners["decoder"],
        encoder=model.runners.get("encoder"),
        tokenizer=model.tokenizer,
        rules=rules,
        guides=Guides(model.tokenizer, model.vocabulary_size, rules.end),
    )
