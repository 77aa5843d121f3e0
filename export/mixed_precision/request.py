"""What is asked for when a file is converted."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from attendant.errors import ConfigError
from export.precision.precisions import PRECISIONS
from export.targets.targets import target_named

NarrowPrecision = Literal["fp16", "bf16", "int8"]
_BUDGETS = {"fp16": "fp16", "bf16": "bf16", "int8": "int8-static"}
_ALIASES = {"ort": "ort-cpu"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked for.

    Attributes:
        precision: the narrower one.
        target: the runtime that the file is for, a name in :mod:`export.targets.targets`; ``ort`` is ``ort-cpu``.
        calibration: files with inputs; drawn at random if not given.
        samples: how many are drawn.
        sizes: of axes that vary, for what is drawn.
        budget: the largest drift; the precision's own if not given.
        narrow_io: whether float32 inputs and outputs become narrow too.

    Raises:
        ConfigError: a number is not positive.
        UnknownNameError: there is no such target.
    """

    precision: NarrowPrecision
    target: str = "tensorrt"
    calibration: Path | None = None
    samples: int = 2
    sizes: Mapping[str, int]
    budget: float | None = None
    narrow_io: bool = False

    def __post_init__(self) -> None:
        target_named(self.target_name)
        if self.samples < 1:
            raise ConfigError("at least one sample", str(self.samples), "correct --samples")
        if self.budget is not None and not self.budget > 0:
            raise ConfigError("a positive drift", str(self.budget), "correct --budget")

    @property
    def limit(self) -> float:
        """The largest drift."""
        return PRECISIONS[_BUDGETS[self.precision]].budget.drift if self.budget is None else self.budget

    @property
    def target_name(self) -> str:
        """The target's name among :data:`export.targets.targets.TARGETS`."""
        return _ALIASES.get(self.target, self.target)


def sizes_of(words: Iterable[str]) -> dict[str, int]:
    """Sizes of axes from words as ``height=224``.

    Raises:
        ConfigError: a word is none such.
    """
    sizes = {}
    for word in words:
        name, _, size = word.partition("=")
        if not name or not size.isdecimal() or not int(size):
            raise ConfigError("the size of an axis as height=224", repr(word), "correct --sizes")
        sizes[name] = int(size)
    return sizes
