"""One way to answer the held-out questions, timed question by question."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What one way of running a model answered.

    Attributes:
        answers: in the order of the questions.
        latencies_ms: of each question, from the request to the whole answer.
        first_token_ms: of each question, to its first token; empty where answers have no tokens.
        tokens: number of answer tokens in all.
    """

    answers: list[str]
    latencies_ms: list[float] = field(default_factory=list)
    first_token_ms: list[float] = field(default_factory=list)
    tokens: int = 0

    def accuracy(self, truths: list[str]) -> float:
        """The share of answers that are right."""
        return sum(answer == truth for answer, truth in zip(self.answers, truths, strict=True)) / len(truths)

    def tokens_per_second(self) -> float:
        """Answer tokens over the time of all questions, asked one after the other."""
        return self.tokens / (sum(self.latencies_ms) / 1e3) if self.tokens else 0.0
