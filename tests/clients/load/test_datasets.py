"""A dataset's lines become requests, a conversation one a turn; what is no such line is refused by its number."""

import json

import numpy as np
import pytest

from attendant.errors import InputError
from clients.load import datasets
from clients.load.request_inputs import create_inputs
from clients.load.scenario import Inputs, Workload


def created(path, model=None):
    workload = Workload(name="w", model="m", inputs=Inputs(kind="files", files=(str(path),)))
    return create_inputs(workload, model, np.random.default_rng(0))


@pytest.fixture
def written(tmp_path):
    def write(*lines):
        path = tmp_path / "dataset.jsonl"
        path.write_text("\n".join(one if isinstance(one, str) else json.dumps(one) for one in lines))
        return path

    return write


def test_texts_have_their_lengths_and_answers(written):
    (first, second) = created(written({"text": "a", "max_tokens": 3, "answer": "b"}, "", {"text": "c"}))
    assert (first.text, first.max_tokens, first.answer) == ("a", 3, "b")
    assert (second.text, second.max_tokens, second.answer) == ("c", None, None)


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85", "\x0c"])
def test_a_text_may_hold_what_else_ends_a_line(tmp_path, end):
    path = tmp_path / "dataset.jsonl"
    lines = [json.dumps({"text": f"a{end}b"}, ensure_ascii=False)] * 2
    path.write_text("\ufeff" + "\r\n".join(lines) + "\r\n", encoding="utf-8", newline="")
    assert [one.text for one in created(path)] == [f"a{end}b"] * 2


@pytest.mark.parametrize("line", ["", {"text": "\ud800"}])
def test_a_file_of_nothing_and_half_a_character_are_refused(written, line):
    with pytest.raises(InputError, match=r"inputs in the files|whole characters"):
        created(written(line))


def test_a_conversation_is_a_request_a_turn_with_all_messages_before_it(written):
    messages = [
        {"role": role, "content": text}
        for role, text in (("system", "s"), ("user", "1"), ("assistant", "2"), ("user", "3"), ("assistant", "4"))
    ]
    first, second = created(written({"messages": messages, "max_tokens": 2, "answer": "5"}))
    assert (list(first.messages), first.answer, first.max_tokens) == (messages[:2], None, 2)
    assert (list(second.messages), second.answer, second.max_tokens) == (messages[:4], "5", 2)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "line 2 of"),
        ("[1]", "line 2 of"),
        ("[" * 100_000, "line 2 of"),
        ({"text": "a", "max_tokens": "3"}, "max_tokens of at least 1 in line 2"),
        ({"text": "a", "max_tokens": 0}, "max_tokens of at least 1 in line 2"),
        ({"messages": "a"}, "messages with role and content in line 2"),
        ({"messages": [{"role": "user"}]}, "messages with role and content in line 2"),
        ({"messages": [{"role": "system", "content": "a"}]}, "messages of the user in line 2"),
        ({"messages": [{"role": "user", "content": "a"}] * 101}, "1 to 100 messages of the user in line 2"),
    ],
)
def test_what_is_no_such_line_is_refused_by_its_number(written, line, told):
    with pytest.raises(InputError, match=told):
        created(written({"text": "a"}, line))


def test_too_many_lines_are_refused(written, monkeypatch):
    monkeypatch.setattr(datasets, "MOST_LINES", 2)
    with pytest.raises(InputError, match="at most 2 lines"):
        created(written(*[{"text": "a"}] * 3))


def test_a_conversation_is_no_text(written):
    (found,) = created(written({"messages": [{"role": "user", "content": "a"}]}))
    with pytest.raises(InputError, match="--endpoint chat"):
        _ = found.text
