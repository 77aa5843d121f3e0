"""Calls of tools: what a chat model is told of them, and what holds its answer to their schemas.

Sources: the parsers of vLLM (``hermes``, which is Qwen's too, ``llama3_json``, ``mistral``) and the chat templates of
those models; llguidance's ``StructTag`` for calls in the midst of text.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attendant.errors import InputError

_STYLE = {"x-guidance": {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}}
"""As ``json.dumps`` writes, and templates, by which models were trained."""
_ANY = r"/(.|\n)*/"
_AS_CALLS = r'\s*(\[\s*)?\{\s*"name"(.|\n)*'
"""What the parser reads as calls; whoever calls no tool may not begin so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFormat:
    """How a model calls tools.

    Attributes:
        marker: the text that says that calls come; empty where an answer is nothing but calls.
        begin: what stands before the first call, and between two, and after the last.
        between: two calls.
        end: behind the last call.
        arguments: the name beside ``name`` in the object of a call.
        speaks_marker: whether the marker is text; a special token is none, and calls then begin the answer.
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
LLAMA = ToolFormat(marker="", begin="", between="; ", end="", arguments="parameters", speaks_marker=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The tools of one request.

    Attributes:
        schemas: name → JSON schema of its arguments.
        format: of the model.
        marker_token: of the format's marker, where it is a special token that the server names.
        is_forced: whether the answer is calls and nothing else.
        are_parallel: whether there may be several calls.
    """

    schemas: Mapping[str, Any]
    format: ToolFormat
    marker_token: int | None = None
    is_forced: bool = False
    are_parallel: bool = True

    @property
    def prompt_end(self) -> str:
        """What the prompt ends with: calls that must come have begun."""
        return self.format.begin if self.is_forced else ""

    def grammar(self) -> str | None:
        """What holds an answer to the schemas, for llguidance; None where a marker's token is not known."""
        form = self.format
        calls = "call" + (f" ({json.dumps(form.between)} call)*" if self.are_parallel else "") + _quoted(form.end)
        if self.is_forced:
            start = f"start: {calls}"
        elif form.speaks_marker:
            one = f"begin BLANKS? call{_quoted(form.end)}"
            start = f"start: ({one})* TEXT" if self.are_parallel else f"start: TEXT | {one}"
            start += f"\nbegin[lazy]: {_ANY} {json.dumps(form.marker)}\nBLANKS: /[ \\n]/"
            start += f"\nTEXT: {_ANY} & ~/(.|\\n)*{re.escape(form.marker)}(.|\\n)*/"
        elif not form.marker:
            start = f"start: {calls} | TEXT\nTEXT: {_ANY} & ~/{_AS_CALLS}/"
        elif self.marker_token is None:
            return None
        else:
            start = f'start: <[{self.marker_token}]> " "? "[" {calls} | TEXT'
            start += f"\nTEXT: {_ANY} & ~/({re.escape(form.marker)})?{_AS_CALLS}/"
        rules = [self._rule(number, name) for number, name in enumerate(self.schemas)]
        options = " | ".join(f"call_{number}" for number in range(len(rules)))
        return "\n".join([start, f"call: {options}", *rules])

    def _rule(self, number: int, name: str) -> str:
        schema = self.schemas[name] if isinstance(self.schemas[name], dict) else {}
        kinds = schema.get("type", "object")
        if "object" not in (kinds if isinstance(kinds, list) else [kinds]):
            raise InputError(
                f"parameters of {name!r} that are an object",
                f"type {kinds!r}",
                "name them in properties",
                param="tools",
            )
        styled = {**schema, "type": "object", **_STYLE}  # which many leave out, and models and clients take for said
        head = f'{{"name": {json.dumps(name)}, "{self.format.arguments}": '
        return f"call_{number}: {json.dumps(head)} %json {json.dumps(styled)} {json.dumps('}')}"


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
