"""What is read as a call of a tool, and what a guide lets an answer write."""

import pytest

from serving.gateway.tool_parser import ToolCall, read_calls
from serving.gateway.tools import HERMES, LLAMA, Tools
from tests.serving.gateway.test_tools import SCHEMAS, call, takes

EVIL = [
    f"{before}{begin}{blank}{call(HERMES, arguments=odd)}{end}"
    for before in ("", "so: ")
    for begin, end in (("<tool_call>", "</tool_call>"), ("<tool_call>", "\n</tool_call>"), ("<tool_call>\n", ""))
    for blank in ("", " ", "\n", " [", "\t", "\x1c")
    for odd in ('{"a": "evil"}', '{"b": 1}')
]


@pytest.mark.parametrize("are_parallel", [True, False])
@pytest.mark.parametrize("form", [HERMES, LLAMA], ids=["hermes", "llama"])
def test_what_is_read_as_a_call_was_held_to_its_schema(form, are_parallel):
    tools = Tools(schemas=SCHEMAS, format=form, are_parallel=are_parallel)
    wrong = [call(form, arguments='{"a": "evil"}'), call(HERMES if form is LLAMA else LLAMA, arguments='{"a": 2.5}')]
    texts = (
        [*EVIL] if form is HERMES else [before + one for one in wrong for before in (" ", "[", " [\n", "\x1c", "\x85")]
    )
    read = [text for text in texts if any(isinstance(part, ToolCall) for part in read_calls(tools, text))]
    assert len(read) >= len(texts) // 2 and not any(takes(tools, text) for text in read)
    if form is HERMES:
        for blank in ("", " ", "\n"):
            assert takes(tools, f"so: <tool_call>{blank}{call(form)}{form.end}"), (
                "models differ in what they write there"
            )
