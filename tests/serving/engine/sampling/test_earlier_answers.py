from hypothesis import given
from hypothesis import strategies as st

from serving.engine.sampling.earlier_answers import CONTEXT, EarlierAnswers

texts = st.lists(
    st.tuples(st.lists(st.integers(0, 1), max_size=20), st.lists(st.integers(0, 1), max_size=20)), max_size=8
)


def by_search(texts, tokens, most):
    """The same by going through all answers, the latest first."""
    for prompt, answer in reversed(texts):
        kept = (prompt + answer)[-(len(answer) + CONTEXT) :]
        for place in range(len(kept) - 1, CONTEXT - 1, -1):
            if kept[place - CONTEXT : place] == tokens[-CONTEXT:]:
                return kept[place : place + most]
    return []


@given(texts, st.lists(st.integers(0, 1), max_size=20), st.integers(0, 9))
def test_a_draft_is_how_the_latest_answer_went_on_behind_the_same_context(texts, tokens, most):
    earlier = EarlierAnswers()
    for prompt, answer in texts:
        earlier.keep(prompt + answer, len(answer))
    assert earlier.draft(tokens, most) == by_search(texts, tokens, most)


@given(st.lists(st.lists(st.integers(0, 9), max_size=50), max_size=40))
def test_as_many_tokens_are_kept_as_may_be_and_the_oldest_are_forgotten(answers):
    earlier = EarlierAnswers(most_tokens=100)
    for answer in answers:
        earlier.keep(answer, len(answer))
        kept = [*earlier._answers.values()]
        assert sum(map(len, kept)) == earlier._kept <= 100
        assert len(earlier._after) <= 100
        assert all(earlier._answers[number][place - CONTEXT : place] for number, place in earlier._after.values())


def test_an_answer_longer_than_what_is_kept_is_kept_in_part():
    earlier = EarlierAnswers(most_tokens=10)
    earlier.keep(range(100), 100)
    assert earlier.draft(range(80, 98), 5) == [98, 99]
    assert earlier.draft(range(80), 5) == []
