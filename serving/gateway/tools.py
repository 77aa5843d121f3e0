"""Calls of tools: what a chat model is told of them, what holds its answer to their schemas, and how it is read.

Sources: the parsers of vLLM (``hermes``, which is Qwen's too, ``llama3_json``, ``mistral``) and the chat templates of
those models; llguidance's ``StructTag`` for calls in the midst of text.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from attendant.errors import InputError

_STYLE = {"x-guidance": {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}}
"""As ``json.dumps`` writes, and templates, by which models were trained."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFormat:
    """How a model calls tools.

    Attributes:
        marker: the text that says that calls come; empty where an answer is nothing but calls.
        begin: what stands before the first call, and between two, and after the last.
        between: two calls.
        end: behind the last call.
        arguments: the name beside ``name`` in the object of a call.
        speaks_marker: whether the marker is text: a special token is none, and no guide can ask for it.
    """

    marker: str
    begin: str
    between: str
    end: str
    arguments: str = "arguments"
    speaks_marker: bool = True


HERMES = ToolFormat(
    marker="<tool_call>",
    begin="<tool_call>\n",
    between="\n</tool_call>\n<tool_call>\n",
    end="\n</tool_call>",
)
MISTRAL = ToolFormat(marker="[TOOL_CALLS]", begin="[TOOL_CALLS] [", between=", ", end="]", speaks_marker=False)
LLAMA = ToolFormat(marker="", begin="", between="; ", end="", arguments="parameters")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call.

    Attributes:
        name: of the tool.
        arguments: as JSON.
    """

    name: str
    arguments: str

    def to_json(self) -> dict[str, Any]:
        """The same as OpenAI says it, with an id of its own."""
        function = {"name": self.name, "arguments": self.arguments}
        return {"id": f"call_{uuid4().hex[:24]}", "type": "function", "function": function}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The tools of one request.

    Attributes:
        schemas: name → JSON schema of its arguments.
        format: of the model.
        is_forced: whether the answer is calls and nothing else.
        are_parallel: whether there may be several calls.
    """

    schemas: Mapping[str, Any]
    format: ToolFormat
    is_forced: bool = False
    are_parallel: bool = True

    @property
    def prompt_end(self) -> str:
        """What the prompt ends with: calls that must come have begun."""
        return self.format.begin if self.is_forced else ""

    def grammar(self) -> str | None:
        """What holds an answer to the schemas, for llguidance; None where the model's marker cannot be asked for."""
        form = self.format
        calls = "call" + (f" ({json.dumps(form.between)} call)*" if self.are_parallel else "") + _quoted(form.end)
        if self.is_forced:
            start = f"start: {calls}"
        elif not form.speaks_marker:
            return None
        elif not form.marker:
            start = f"start: {calls} | TEXT\nTEXT: /([^{{](.|\\n)*)?/"
        else:
            again = f"(begin call{_quoted(form.end)})* TEXT" if self.are_parallel else "TEXT | begin call"
            tail = "" if self.are_parallel else _quoted(form.end)
            start = f"start: {again}{tail}\nbegin[lazy]: TEXT {json.dumps(form.begin)}\nTEXT: /(.|\\n)*/"
        rules = [self._rule(number, name) for number, name in enumerate(self.schemas)]
        options = " | ".join(f"call_{number}" for number in range(len(rules)))
        return "\n".join([start, f"call: {options}", *rules])

    def _rule(self, number: int, name: str) -> str:
        schema = self.schemas[name]
        styled = {**schema, **_STYLE} if isinstance(schema, dict) else _STYLE
        head = f'{{"name": {json.dumps(name)}, "{self.format.arguments}": '
        return f"call_{number}: {json.dumps(head)} %json {json.dumps(styled)} {json.dumps('}')}"

    def read(self, answer: str) -> tuple[str, list[ToolCall]]:
        """The text before the calls of a whole answer, and the calls; all is text where they cannot be read."""
        marker = self.format.marker
        content, found, rest = answer.partition(marker) if marker and not self.is_forced else ("", "", answer)
        if marker and not self.is_forced and not found:
            content, rest = (
                ("", answer) if answer.lstrip()[:1] == "[" and not self.format.speaks_marker else (answer, "")
            )
        calls = [] if not rest else self._calls(rest)
        return (content, calls) if calls else (answer, [])

    def _calls(self, text: str) -> list[ToolCall]:
        decoder, calls = json.JSONDecoder(), list[ToolCall]()
        at = _SKIPPED.match(text).end()  # type: ignore[union-attr]  # it matches nothing too
        try:
            while at < len(text):
                value, at = decoder.raw_decode(text, at)
                for one in value if isinstance(value, list) else [value]:
                    name, arguments = one["name"], one.get("arguments", one.get("parameters", {}))
                    if name not in self.schemas:
                        return []
                    calls.append(ToolCall(name=name, arguments=json.dumps(arguments, ensure_ascii=False)))
                at = _SKIPPED.match(text, at).end()  # type: ignore[union-attr]
        except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
            return []
        return calls

    def holds_back(self, answer: str) -> int:
        """How much of an answer's beginning is text whatever follows; the rest may be calls."""
        marker = self.format.marker
        if self.is_forced:
            return 0
        if answer.lstrip()[:1] in ("", "{", "[") and not (marker and self.format.speaks_marker):
            return 0
        if not marker:
            return len(answer)
        if (place := answer.find(marker)) >= 0:
            return place
        partial = next((size for size in range(len(marker) - 1, 0, -1) if answer.endswith(marker[:size])), 0)
        return len(answer) - partial


_SKIPPED = re.compile(r"(?:\s|;|,|\]|\[(?=\s*\{)|</?tool_call>|\[TOOL_CALLS\]|<\|python_tag\|>)*")
"""What stands around calls."""


def tool_format(template: str) -> ToolFormat:
    """How the model of a chat template calls tools.

    Raises:
        InputError: it says nothing of tools, or calls them in a way that is not known.
    """
    if "tools" in template and "<function=" not in template:
        if "<tool_call>" in template:
            return HERMES
        if "[TOOL_CALLS]" in template:
            return MISTRAL
        if '"parameters"' in template:
            return LLAMA
    raise InputError(
        "a chat template that calls tools as Hermes, Qwen 2.5 and 3, Llama 3 or Mistral do",
        "another",
        "leave tools out, or use structured_outputs",
        param="tools",
    )


def plain_tools(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Tools as templates know them: what is not said is left out, but for parameters, as templates walk them."""
    nothing = {"parameters": {"type": "object", "properties": {}}}
    return [
        {**tool, "function": nothing | {k: v for k, v in tool["function"].items() if v is not None}} for tool in tools
    ]


def _quoted(text: str) -> str:
    return f" {json.dumps(text)}" if text else ""
