"""The process in which a model's chat template is rendered: a program of others, which the kernel bounds.

Jinja2's sandbox keeps a template from the machine; it bounds neither its time nor its memory.
"""

import json
import os
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any

from jinja2 import Template

from attendant.chat_template import MessagesRefusedError, create_environment
from serving.gateway.bounded_process import Bounds, answer_bounded

BOUNDS = Bounds(processor_s=1.0, longest_s=4.0, more_bytes=128 << 20)
"""To compile and render a template."""
MOST_MESSAGE = 1000
"""Characters of what a template says of its failure."""


def serve_templates(descriptor: int) -> None:
    """Render what comes; see :func:`serving.gateway.bounded_process.answer_bounded`."""
    answer_bounded(descriptor, lambda request: json.dumps(_render(**json.loads(request))).encode())


def _render(template: str, variables: dict[str, Any], most_bytes: int, control_tokens: Sequence[str]) -> dict[str, str]:
    tokens = _any_of(tuple(control_tokens))
    found = _find_control_token(variables, tokens) or _try_rendering(template, variables, most_bytes)
    if "fault" not in found or not any(message.get("tool_calls") for message in variables["messages"]):
        return found
    variables = {**variables, "messages": [_with_text_arguments(message) for message in variables["messages"]]}
    again = _find_control_token(variables, tokens) or _try_rendering(template, variables, most_bytes)
    return {"error": found["fault"]} if "fault" in again else again  # without calls it may well work


def _with_text_arguments(message: dict[str, Any]) -> dict[str, Any]:
    # As OpenAI's API has them, and templates of DeepSeek-R1 read them; to most templates they are objects.
    calls = [
        {**call, "function": {**call["function"], "arguments": json.dumps(call["function"]["arguments"])}}
        for call in message.get("tool_calls", ())
    ]
    return {**message, "tool_calls": calls} if calls else message


def _find_control_token(variables: dict[str, Any], tokens: re.Pattern[str] | None) -> dict[str, str] | None:
    # In a rendered prompt a special token is one wherever it stands: whoever wrote one could speak for another role.
    said = {f"message {number}": message for number, message in enumerate(variables["messages"])}
    for place, value in {**said, "tools": variables["tools"]}.items():
        if found := _find_token(value, tokens):
            return {"control_token": found, "place": place}
    return None


def _try_rendering(template: str, variables: dict[str, Any], most_bytes: int) -> dict[str, str]:
    try:
        prompt = _compile_template(template).render(**variables)
        size = len(prompt.encode())
    except MemoryError:
        raise
    except MessagesRefusedError as error:
        return {"error": str(error)[:MOST_MESSAGE]}
    except Exception as error:  # whatever a template of others may raise
        return {"fault": f"{type(error).__name__}: {error}"[:MOST_MESSAGE]}
    return {"prompt": prompt} if size <= most_bytes else {"error": f"a prompt of {size} bytes, more than {most_bytes}"}


@lru_cache(maxsize=4)
def _any_of(tokens: tuple[str, ...]) -> re.Pattern[str] | None:
    return re.compile(_alternation(tokens)) if tokens else None


def _alternation(tokens: Sequence[str]) -> str:
    # What they begin with in common stands once: a text of "<" alone would try each of hundreds at each place.
    head = os.path.commonprefix(tokens)  # noqa: RUF071  its characters are meant
    rests = sorted({token[len(head) :] for token in tokens})
    if not rests[0]:  # one of them is the beginning of all others
        return re.escape(head)
    groups = (_alternation(list(group)) for _, group in groupby(rests, itemgetter(0)))
    return f"{re.escape(head)}(?:{'|'.join(groups)})"


def _find_token(value: Any, tokens: re.Pattern[str] | None) -> str | None:
    if tokens is None:
        return None
    if isinstance(value, str):
        return found.group() if (found := tokens.search(value)) else None
    parts = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next(filter(None, (_find_token(part, tokens) for part in parts)), None)


@lru_cache(maxsize=4)
def _compile_template(template: str) -> Template:
    return create_environment().from_string(template)
