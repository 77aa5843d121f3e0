"""One model's answers by every way of running it."""

from dataclasses import dataclass

from commands.quickstart.answers import Answers


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One model's answers by every way of running it.

    Attributes:
        name: the model's.
        truths: the right answers; None where there is no such thing.
        pytorch: by the eager model.
        process: by ONNX Runtime in this process.
        served: by Triton over gRPC.
    """

    name: str
    truths: list[str] | None
    pytorch: Answers
    process: Answers
    served: Answers

    @property
    def equal(self) -> bool:
        """Whether every way gave the same answer to every question."""
        return self.pytorch.answers == self.process.answers == self.served.answers
