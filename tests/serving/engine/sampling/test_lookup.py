from hypothesis import given
from hypothesis import strategies as st

from serving.engine.sampling.lookup import Lookup

tokens = st.lists(st.integers(0, 4), max_size=40)


def by_search(tokens, most, longest=3):
    """The same by going through the whole sequence."""
    for size in range(min(longest, len(tokens)), 0, -1):
        for begin in range(len(tokens) - size - 1, -1, -1):
            if tokens[begin : begin + size] == tokens[-size:]:
                guess = []
                while len(guess) < most:
                    guess.append((tokens + guess)[begin + size + len(guess)])
                return guess
    return []


@given(tokens, tokens, st.integers(1, 10), st.integers(1, 4))
def test_a_draft_is_what_followed_the_latest_earlier_occurrence(prompt, answer, most, longest):
    lookup, so_far = Lookup(prompt, longest), list(prompt)
    assert lookup.draft(most) == by_search(so_far, most, longest)
    for token in answer:
        lookup.add(token)
        so_far.append(token)
        assert lookup.draft(most) == by_search(so_far, most, longest)


def test_the_longest_known_ngram_decides():
    assert Lookup([1, 2, 3, 9, 8, 3, 7, 1, 2, 3]).draft(2) == [9, 8]
    assert Lookup([1, 2, 3, 9, 8, 3, 7, 1, 2, 3], longest=1).draft(2) == [7, 1]


def test_a_draft_that_reaches_the_end_of_the_sequence_goes_round():
    assert Lookup([5, 5]).draft(4) == [5, 5, 5, 5]
    assert Lookup([1, 2, 1]).draft(4) == [2, 1, 2, 1]


def test_what_has_not_been_seen_has_no_draft():
    assert Lookup().draft(4) == [] and Lookup([1, 2, 3]).draft(4) == []
