import pytest

from commands.quickstart.answers import Answers


def test_accuracy_is_the_share_of_right_answers():
    assert Answers(answers=["3", "5", "1", "7"]).accuracy(["3", "5", "1", "1"]) == 0.75


def test_answers_to_other_questions_are_not_compared():
    with pytest.raises(ValueError, match="argument 2 is longer"):
        Answers(answers=["3"]).accuracy(["3", "5"])


def test_tokens_per_second_is_over_the_time_of_all_questions():
    assert Answers(answers=["a", "b"], latencies_ms=[1.0, 3.0], tokens=20).tokens_per_second() == pytest.approx(5000)
    assert Answers(answers=["a"], latencies_ms=[1.0]).tokens_per_second() == 0
