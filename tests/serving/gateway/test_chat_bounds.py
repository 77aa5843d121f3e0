"""How much of a chat is read at all."""

import pytest
from pydantic import ValidationError

from serving.gateway.schemas.chat import MOST_PARTS, ChatRequest
from serving.gateway.schemas.tokens import TokenizeRequest

PART = {"type": "text", "text": "a"}


def chat(messages, parts):
    return {"model": "m", "messages": [{"role": "user", "content": [PART] * parts}] * messages}


def test_a_chat_of_many_parts_is_read():
    assert ChatRequest.model_validate(chat(2, MOST_PARTS // 2)).messages[0].plain()["content"] == "a" * (
        MOST_PARTS // 2
    )


def test_so_is_one_of_more_calls():
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    said = [{"role": "assistant", "tool_calls": [call] * 64}] * 33
    for kind in (ChatRequest, TokenizeRequest):
        with pytest.raises(ValidationError, match="at most 2048 calls together; found 2112"):
            kind.model_validate({"model": "m", "messages": said})


@pytest.mark.planted
@pytest.mark.parametrize("messages", [1, 64])
def test_one_of_more_parts_is_refused_however_they_are_divided(messages):
    with pytest.raises(ValidationError, match="at most 2048 parts together; found 4096") as found:
        ChatRequest.model_validate(chat(messages, 4096 // messages))
    assert found.value.error_count() == 1
