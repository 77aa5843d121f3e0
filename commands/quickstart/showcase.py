"""One shipped checkpoint, asked in every way."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from attendant.manifest import Manifest
from clients.caption import Captioner as ServedCaptioner
from clients.generate import Generator as ServedGenerator
from clients.translate import Translator as ServedTranslator
from commands.quickstart import digits, texts
from commands.quickstart.outcome import Outcome
from commands.quickstart.pictures import picture
from commands.quickstart.prompts import PROMPTS, TOKENS
from models.checkpoints.resolve import checkpoint_named
from models.train.caption_data import held_out_pairs
from models.train.date_data import held_out as held_out_dates
from models.train.digit_data import held_out as held_out_digits
from serving.engine.text_generation_model import CaptionModel, LanguageModel, TranslationModel

SAMPLES = 5
PAIRS_SHOWN = 2


@dataclass(frozen=True, slots=True)
class Showcase(ABC):
    """One checkpoint with its questions."""

    name: str

    @abstractmethod
    def ask(self, folder: Path, server: str) -> Outcome:
        """Answer every question by PyTorch, by the artefact in a folder, and by a server."""

    @abstractmethod
    def show(self, console: Console, outcome: Outcome) -> None:
        """Print a few questions with their served answers."""


class Digits(Showcase):
    """The 360 held-out images."""

    def ask(self, folder: Path, server: str) -> Outcome:
        """See :class:`Showcase`."""
        checkpoint = checkpoint_named(self.name)
        images, classes = held_out_digits()
        return Outcome(
            name=self.name,
            truths=[checkpoint.details["labels"][index] for index in classes],
            pytorch=digits.in_pytorch(checkpoint, images),
            process=digits.in_process(folder, images),
            served=digits.served(server, self.name, images),
        )

    def show(self, console: Console, outcome: Outcome) -> None:
        """See :class:`Showcase`."""
        console.print(f"{self.name:>20}", highlight=False, markup=False)
        pictures = [picture(image[0]) for image in held_out_digits()[0][:SAMPLES]]
        for line in zip(*pictures, strict=True):
            console.print("   ".join(line), highlight=False, markup=False)
        answers = outcome.served.answers[:SAMPLES]
        console.print("   ".join(f"→ {answer}".center(16) for answer in answers), highlight=False)


@dataclass(frozen=True, slots=True)
class Dates(Showcase):
    """So many held-out dates."""

    count: int

    def ask(self, folder: Path, server: str) -> Outcome:
        """See :class:`Showcase`."""
        pairs = held_out_dates(self.count)
        questions = texts.Questions(subjects=[text for text, _ in pairs])
        return Outcome(
            name=self.name,
            truths=[answer for _, answer in pairs],
            pytorch=texts.translated_in_pytorch(checkpoint_named(self.name), questions),
            process=texts.in_process(TranslationModel(folder, Manifest.read(folder)), questions),
            served=texts.served(ServedTranslator, server, self.name, questions),
        )

    def show(self, console: Console, outcome: Outcome) -> None:
        """See :class:`Showcase`."""
        for (text, _), answer in zip(held_out_dates(SAMPLES), outcome.served.answers, strict=False):
            console.print(f"{self.name:>20} {text:>32} → {answer}", highlight=False, markup=False)


@dataclass(frozen=True, slots=True)
class Captions(Showcase):
    """So many pairs of held-out digits."""

    count: int

    def ask(self, folder: Path, server: str) -> Outcome:
        """See :class:`Showcase`."""
        images, captions = held_out_pairs(self.count)
        questions = texts.Questions(subjects=list(images))
        return Outcome(
            name=self.name,
            truths=captions,
            pytorch=texts.described_in_pytorch(checkpoint_named(self.name), questions),
            process=texts.in_process(CaptionModel(folder, Manifest.read(folder)), questions),
            served=texts.served(ServedCaptioner, server, self.name, questions),
        )

    def show(self, console: Console, outcome: Outcome) -> None:
        """See :class:`Showcase`."""
        console.print(f"{self.name:>20}", highlight=False, markup=False)
        images, _ = held_out_pairs(PAIRS_SHOWN)
        for image, answer in zip(images, outcome.served.answers, strict=False):
            for line in picture(image[0, 4:12]):
                console.print(f"{'':>20} {line}", highlight=False, markup=False)
            console.print(f"{'':>20} → {answer}", highlight=False, markup=False)


class Prompts(Showcase):
    """A few beginnings, to be continued."""

    def ask(self, folder: Path, server: str) -> Outcome:
        """See :class:`Showcase`."""
        questions = texts.Questions(subjects=PROMPTS, max_tokens=TOKENS)
        return Outcome(
            name=self.name,
            truths=None,
            pytorch=texts.continued_in_pytorch(checkpoint_named(self.name), questions),
            process=texts.in_process(LanguageModel(folder, Manifest.read(folder)), questions),
            served=texts.served(ServedGenerator, server, self.name, questions),
        )

    def show(self, console: Console, outcome: Outcome) -> None:
        """See :class:`Showcase`."""
        for prompt, answer in list(zip(PROMPTS, outcome.served.answers, strict=True))[:SAMPLES]:
            line = " ".join((prompt + "▸" + answer).split())
            console.print(f"{self.name:>20} {line}", highlight=False, markup=False)


def showcases(texts: int) -> list[Showcase]:
    """One for each of :data:`commands.quickstart.stages.MODELS`.

    Args:
        texts: how many held-out dates, and how many pairs of digits, to ask.
    """
    return [
        Digits("digits-vit"),
        Digits("digits-swin"),
        Captions("digits-captioner", texts),
        Dates("dates-transformer", texts),
        Dates("dates-gru", texts),
        Prompts("stdlib-lm"),
    ]
