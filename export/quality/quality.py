"""How much of a model is left in an artefact, as it was measured."""

from collections.abc import Mapping
from dataclasses import dataclass

from export.quality.agreement import Agreement, Prefix

SERVED, STANDARD, ROUNDED, TENSORRT_FORM = "served", "standard", "rounded", "tensorrt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """Right answers beside the reference's.

    Attributes:
        metric: what counts as right.
        share: 0 to 1.
        reference: the eager float64 model's share.
        total: how many were asked.
        perplexity: of a language model.
        reference_perplexity: of the eager float64 model.
    """

    metric: str
    share: float
    reference: float
    total: int
    perplexity: float | None = None
    reference_perplexity: float | None = None

    @property
    def loss(self) -> float:
        """How much less than the reference, in points of a hundred."""
        return 100 * (self.reference - self.share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """One form of an artefact beside the eager float64 model.

    Attributes:
        form: :data:`SERVED`, what create_runners gives: lowered or by another runtime where that is faster;
            :data:`STANDARD`, the graphs of standard operators on ONNX Runtime; :data:`ROUNDED`, those of a type that
            it lacks on a CPU, in fp32 and rounded wherever they round; or :data:`TENSORRT_FORM`, what engines are built
            from, where its numbers are others, on ONNX Runtime too.
        questions: what was asked.
        real: whether they are examples of what the model was made for.
        agreements: output → the comparison of its values.
        prefix: of greedy answers; none where there is no decoder.
        accuracy: none where nobody knows the right answers.
    """

    form: str
    questions: str
    real: bool
    agreements: Mapping[str, Agreement]
    prefix: Prefix | None = None
    accuracy: Right | None = None
