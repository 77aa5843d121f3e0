"""What is known of one parameter of an answer beside its name, its type and its default: a row of the table."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Literal

from numpy.typing import NDArray

from attendant.errors import InputError
from attendant.signature import DType

Group = Literal[
    "Length", "Sampling", "Penalties", "Beams", "Stops", "Structured output", "Prompt", "Report", "Schedule"
]
LARGE = 1e9
BYTES_OF_CHARACTER = 4
"""At most, in UTF-8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """What is said of a parameter beside its name, its type and its default.

    Attributes:
        group: of flags and of the guide's tables.
        tensors: that carry it: name → type.
        help: what it does.
        several: whether its tensors hold any number of values; one otherwise.
        ge: the least value.
        gt: all values are above it.
        le: the largest value.
        max_items: most values, of a parameter of several.
        max_length: most characters of a text.
        most: the largest value in words, where a model has a limit of its own.
        unset: the default in words, where it is None.
        openai: what OpenAI's API calls it; empty where only other servers have it.
    """

    group: Group
    tensors: Mapping[str, DType]
    help: str
    several: bool = False
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    max_items: int | None = None
    max_length: int | None = None
    most: str = ""
    unset: str = "none"
    openai: str = ""

    def require(self, name: str, value: Any) -> None:
        """Refuse a value beyond the bounds.

        Raises:
            InputError: it is; a NaN always is.
        """
        if self.several:
            self._require_at_most(name, self.max_items, len(value), "values")
        texts = value if isinstance(value, tuple) else (value,)
        self._require_at_most(
            name, self.max_length, max((len(one) for one in texts if isinstance(one, str)), default=0), "characters"
        )
        if isinstance(value, Mapping) and not all(map(isfinite, value.values())):
            raise InputError(f"finite numbers in {name}", "NaN or infinity", f"correct {name}", param=name)
        if self.ge is not None or self.gt is not None:
            self._require_in_range(name, value)

    def require_tensor(self, name: str, tensor: NDArray[Any]) -> None:
        """Refuse a tensor that holds more than the parameter can, before anything is made of its values.

        Raises:
            InputError: it does.
        """
        if self.several:
            self._require_at_most(name, self.max_items, tensor.size, "values")
        if tensor.dtype == object and self.max_length is not None:
            most = BYTES_OF_CHARACTER * self.max_length
            self._require_at_most(name, most, max(map(len, tensor.reshape(-1)), default=0), "bytes")

    def _require_at_most(self, name: str, most: int | None, found: int, unit: str) -> None:
        if most is not None and found > most:
            raise InputError(f"{name} of at most {most} {unit}", str(found), f"shorten {name}", param=name)

    def _require_in_range(self, name: str, value: float) -> None:
        if self.gt is not None and not value > self.gt:
            raise InputError(f"{name} above {self.gt:g}", str(value), f"correct {name}", param=name)
        low = self.ge if self.ge is not None else self.gt
        if low is not None and self.le is not None and not low <= value <= self.le:
            bounds = (
                f"of at least {low:g}" if self.le == LARGE and not value > LARGE else f"from {low:g} to {self.le:g}"
            )
            raise InputError(f"{name} {bounds}", str(value), f"correct {name}", param=name)


def param_field(default: Any, group: Group, tensors: str, meaning: str, **others: Any) -> Any:
    """A row; ``tensors`` are names and types, as ``"top_k int32"``."""
    words = iter(tensors.split())
    carried: Any = dict(zip(words, words, strict=True))
    metadata = {"param": Param(group=group, tensors=carried, help=meaning, **others)}
    return field(**({"default_factory": dict} if default == {} else {"default": default}), metadata=metadata)
