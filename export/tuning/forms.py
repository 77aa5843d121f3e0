"""Which forms of a language model are tried: a precision, and what its prompts are read in beside it."""

from collections.abc import Sequence
from dataclasses import dataclass

from export.precision.precisions import PRECISIONS, PrecisionName, PrefillName

GENERATE = "generate"


@dataclass(frozen=True, slots=True)
class Form:
    """One way to export a model.

    Attributes:
        precision: of its graphs.
        prefill: of the graph that reads prompts; that of the decoder if None.
    """

    precision: PrecisionName
    prefill: PrefillName | None = None

    @property
    def name(self) -> str:
        """For people, and for a folder."""
        return self.precision if self.prefill is None else f"{self.precision}-prefill-{self.prefill}"

    @property
    def flags(self) -> str:
        """Of `attendant export onnx`."""
        return f"--precision {self.precision}" + ("" if self.prefill is None else f" --prefill {self.prefill}")


def forms_of(precisions: Sequence[PrecisionName]) -> list[Form]:
    """Every form in some precisions, in their order."""
    found = list[Form]()
    for name in dict.fromkeys(precisions):
        precision = PRECISIONS[name]
        if precision.ort_cpu and (not precision.tasks or GENERATE in precision.tasks):
            found += [Form(name, prefill) for prefill in (None, *precision.prefill)]
    return found
