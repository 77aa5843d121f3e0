class Losses:
    """A report that remembers."""

    def __init__(self) -> None:
        self.values: list[float] = []

    def __call__(self, step: int, steps: int, loss: float) -> None:
        assert 1 <= step <= steps
        self.values.append(loss)

    def first(self, count: int) -> float:
        return sum(self.values[:count]) / count

    def last(self, count: int) -> float:
        return sum(self.values[-count:]) / count
