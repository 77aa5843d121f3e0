"""What a precision may cost of a model's answers."""

from dataclasses import dataclass

from attendant.config import require


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a precision may cost.

    Attributes:
        drift: at most, of the worst step: mean difference in units of the spread of the reference's values.
        kl: at most, the mean of all tokens, in nats.
        top1: at least, the share of the tokens with the reference's first choice.
        loss: at most, right answers fewer than the reference has, in points of a hundred.
        why: a sentence.
        remedy: what to do beyond it.

    Raises:
        ConfigError: one is out of its range.
    """

    drift: float
    kl: float
    top1: float
    loss: float
    why: str
    remedy: str

    def __post_init__(self) -> None:
        for name in ("drift", "kl", "loss"):
            require(
                getattr(self, name) > 0,
                f"a positive {name}",
                getattr(self, name),
                "correct export/precision/precisions.py",
            )
        require(0 < self.top1 <= 1, "a share of first choices", self.top1, "correct export/precision/precisions.py")
