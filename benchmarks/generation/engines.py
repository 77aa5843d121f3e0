"""Engines over the runners of one loaded artefact, so that their settings can be compared side by side."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from attendant.errors import AttendantError
from attendant.manifest import Manifest
from attendant.tasks import TASKS, resolve
from serving.engine.loaded_model import LoadedModel
from serving.engine.request_output import RequestOutput
from serving.engine.sampling.guide import Guides
from serving.engine.sampling.token_rules import TokenRules
from serving.engine.settings import EngineSettings
from serving.engine.text_generation_model import TextGenerationModel


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

    def __call__(self, piece: RequestOutput | AttendantError) -> None:
        """Take a piece.

        Raises:
            AttendantError: it is one.
        """
        if isinstance(piece, AttendantError):
            raise piece
        self.times_s += [time.monotonic()] * len(piece.token_ids)
        self.is_over = self.is_over or piece.is_last


def loaded(folder: Path, settings: EngineSettings, threads: int = 1) -> TextGenerationModel:
    """An artefact that answers with text, by whatever class its task has."""
    manifest = Manifest.read(folder)
    return resolve(TASKS[manifest.task].engine)(folder, manifest, threads, settings=settings)


def written_of(model: TextGenerationModel) -> LoadedModel:
    """What another engine over the same runners decodes with."""
    rules = TokenRules.of(model.details)
    return LoadedModel(
        decoder=model.runners["decoder"],
        encoder=model.runners.get("encoder"),
        tokenizer=model.tokenizer,
        rules=rules,
        guides=Guides(model.tokenizer, model.vocabulary_size, rules.end),
    )
