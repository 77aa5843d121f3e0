import json

import pytest

from serving.gateway.events import event

ENDS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"


@pytest.mark.parametrize("text", [f"a{end}b" for end in ENDS] + [ENDS, "é\u0085\\u2028"])
def test_an_event_is_one_line_for_whoever_splits_lines_as_python_does(text):
    line, rest = event({"text": text}).decode().splitlines()
    assert json.loads(line.removeprefix("data: ")) == {"text": text} and rest == ""


def test_what_is_no_number_is_null():
    assert event({"a": float("nan")}) == b'data: {"a":null}\n\n'
