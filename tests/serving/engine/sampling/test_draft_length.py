import pytest

from serving.engine.sampling.draft_length import AGAIN, TRIALS, DraftLength, Odds


def noted(*steps):
    length = DraftLength()
    for rows, width, seconds in steps:
        for _ in range(TRIALS):
            length.note(rows, width, seconds)
    return length


def test_guesses_are_tried_before_they_are_judged():
    length = DraftLength()
    assert length.best(1, [(4, 0.5)]) == 4 and length.best(1, []) == 0
    for _ in range(TRIALS):
        assert length.best(1, [(4, 0.5)]) == 4
        length.note(1, 5, 1.0)
    for _ in range(TRIALS):
        assert length.best(1, [(4, 0.5)]) == 0
        length.note(1, 1, 1.0)
    assert length.best(1, [(4, 0.5)]) == 4
    assert length.best(2, [(4, 0.5)]) == 4, "steps of two rows are others"


@pytest.mark.parametrize(
    ("seconds", "probability", "expected"),
    [(1.0, 0.1, 4), (1.5, 0.9, 4), (1.5, 0.1, 0), (5.5, 1.0, 0), (1.8, 0.5, 1), (3.0, 0.9, 3)],
)
def test_as_many_are_checked_as_bring_most_tokens_a_second(seconds, probability, expected):
    """By hand: rates (1 + p + … + p^k) / t, where t grows by the same with each guess."""
    length = noted((1, 1, 1.0), (1, 5, seconds))
    rates = [
        sum(probability**place for place in range(count + 1)) / (1 + count * (seconds - 1) / 4) for count in range(5)
    ]
    assert length.best(1, [(4, probability)]) == max(range(5), key=rates.__getitem__) == expected


def test_beyond_the_widest_that_is_known_a_step_takes_as_many_times_as_long():
    length = noted((1, 1, 1.0), (1, 2, 1.1))
    assert length.best(1, [(3, 0.99)]) == 1


def test_of_two_sequences_one_that_guesses_well_must_pay_for_both():
    length = noted((2, 1, 1.0), (2, 3, 1.4))
    assert length.best(2, [(2, 1.0)]) == 2
    assert noted((2, 1, 1.0), (2, 3, 2.1)).best(2, [(2, 1.0)]) == 0


def test_what_did_not_pay_is_tried_again_after_a_while():
    length = noted((1, 1, 1.0), (1, 5, 9.0))
    for _ in range(AGAIN):
        assert length.best(1, [(4, 0.9)]) == 0
        length.note(1, 1, 1.0)
    assert length.best(1, [(4, 0.9)]) == 4


def test_so_is_a_step_without_guesses_where_all_have_some():
    length = noted((1, 5, 2.0), (1, 1, 1.0))
    for _ in range(AGAIN):
        assert length.best(1, [(4, 0.9)]) == 4
        length.note(1, 5, 2.0)
    assert length.best(1, [(4, 0.9)]) == 0


def test_the_odds_follow_what_was_right_and_fade():
    odds = Odds()
    assert odds.probability == 0.5
    for _ in range(50):
        odds.judge(4, 4)
    assert odds.probability > 0.95
    for _ in range(100):
        odds.judge(4, 0)
    assert odds.probability < 0.15
    for _ in range(200):
        odds.judge(0, 0)
    assert odds.probability == pytest.approx(0.5, abs=0.01)


def test_guesses_behind_a_wrong_one_say_nothing():
    short, long = Odds(), Odds()
    for _ in range(10):
        short.judge(2, 1)
        long.judge(8, 1)
    assert short.probability == long.probability
