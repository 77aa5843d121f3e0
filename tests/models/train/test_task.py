import pytest

from models.train.task import Score


def test_a_score_counts_equal_answers_one_by_one() -> None:
    score = Score.of(iter([1, 2, 3]), [1, 5, 3])
    assert (score.right, score.total) == (2, 3)
    assert str(score) == "66.67% (2 of 3)"


def test_too_few_answers_are_no_score() -> None:
    with pytest.raises(ValueError, match="argument 2 is longer"):
        Score.of([1], [1, 2])
