from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from serving.engine.output.detokenizer import StopText

texts = st.text("abé🙂", max_size=30)
stops = st.lists(st.text("abé🙂", min_size=1, max_size=5), max_size=4)


def by_find(text, stop):
    """Where the text is cut, and by which stop: the one that ends first, of those the longest."""
    ends = sorted((text.find(one) + len(one), -len(one), one) for one in stop if one in text)
    return (text[: ends[0][0] + ends[0][1]], ends[0][2]) if ends else (text, None)


def cut(text, places):
    borders = [0, *sorted(min(place, len(text)) for place in places), len(text)]
    return [text[begin:end] for begin, end in pairwise(borders)]


@given(texts, stops, st.lists(st.integers(0, 30), max_size=10))
@example("aabaab", ["aabaaba"], [3])
@example("abab", ["b", "ab"], [])
def test_an_answer_is_told_up_to_its_first_stop_however_it_is_cut(text, stop, places):
    wanted, found = by_find(text, stop)
    one = StopText(tuple(stop))
    told = "".join(one.add(piece) for piece in cut(text, places))
    assert one.found == found
    assert told + one.rest() == wanted and one.rest() == ""


@given(texts, stops, st.lists(st.integers(0, 30), max_size=10))
def test_what_is_told_is_no_beginning_of_a_stop_and_all_else_is_told_at_once(text, stop, places):
    one, come, told = StopText(tuple(stop)), "", ""
    for piece in cut(text, places):
        come += piece
        told += one.add(piece)
        if one.found is None:
            held = [size for size in range(len(come) + 1) if any(text.startswith(come[size:]) for text in stop)]
            assert told == come[: min(held, default=len(come))]


def test_nothing_is_told_after_a_stop():
    one = StopText(("\n\n",))
    assert [one.add(piece) for piece in ("one\n", "", "\ntwo", "three\n\n")] == ["one", "", "", ""]
    assert one.found == "\n\n" and one.rest() == ""


def test_what_turns_out_to_be_no_stop_is_told():
    one = StopText(("</answer>", "<end>"))
    assert [one.add(piece) for piece in ("x <", "/ans", "<e", "ven>")] == ["x ", "", "</ans", "<even>"]
    assert one.found is None


@pytest.mark.parametrize("stop", [(), ("a" * 20_000,)])
def test_a_long_text_without_a_stop_is_told_in_full(stop):
    one = StopText(stop)
    text = "ab" * 20_000
    assert "".join(one.add(piece) for piece in (text[:11], text[11:])) + one.rest() == text
