"""Calls of tools in an answer that comes piece by piece: each call's name as soon as it is known, then its arguments.

text ─► marker ─► {"name": "f", "arguments": ─► {…} ─► } ─► the next call, or text
        what may still turn out to be text is held back; what has been sent as a call stays one

Sources: the streaming tool parsers of vLLM; OpenAI, API reference, streamed ``tool_calls``.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from uuid import uuid4

from serving.gateway.tools import Tools

_BLANKS = r"[ \t\r\n]*+"
"""Of JSON: what guides take for blanks as well."""
_ATOMS = (
    *(r"\{", _BLANKS, '"', "n", "a", "m", "e", '"', _BLANKS, ":", _BLANKS, '"', r'([^"\\]*+)', '"'),
    *(_BLANKS, ",", _BLANKS, '"', "([a-z]*+)", '"', _BLANKS, ":", _BLANKS, r"(?=\{)"),
)
_HEAD = re.compile("".join(_ATOMS))
"""Of a call, up to its arguments."""
_HEAD_BEGINNING = re.compile("".join(f"(?:{atom}" for atom in _ATOMS) + ")?" * len(_ATOMS))
_KEYS = ("arguments", "parameters")
_BEFORE_CALLS = re.compile(rf"{_BLANKS}(?:\[{_BLANKS})?")
_MARK_OF_END = "</tool_call>"
_AFTER_CALL = re.compile(r"(?:\s|;|,|\]|</tool_call>)*+")
_JSON_TURN = re.compile(r'[{}\[\]"]')
_STRING_TURN = re.compile(r'\\.?|"', re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A whole call.

    Attributes:
        name: of the tool.
        arguments: as JSON.
        id: of the call.
    """

    name: str
    arguments: str
    id: str = field(default="", compare=False)

    @property
    def is_whole(self) -> bool:
        """Whether its arguments end, and were not cut by a limit or a stop text."""
        try:
            json.loads(self.arguments)
        except (ValueError, RecursionError):
            return False
        return True

    def to_json(self) -> dict[str, Any]:
        """The same as OpenAI says it."""
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallDelta:
    """A part of a call.

    Attributes:
        index: of the call among those of the answer.
        id: of the call, with its first part.
        name: of the tool, with its first part.
        arguments: what this part adds to them, as JSON.
    """

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""

    def to_json(self) -> dict[str, Any]:
        """The same as OpenAI says it."""
        if not self.id:
            return {"index": self.index, "function": {"arguments": self.arguments}}
        function = {"name": self.name, "arguments": self.arguments}
        return {"index": self.index, "id": self.id, "type": "function", "function": function}


@dataclass(slots=True)
class ToolParser:
    """One answer, read as it comes.

    Attributes:
        tools: that it may call.
        calls: that have begun.
    """

    tools: Tools
    calls: int = field(init=False, default=0)
    _rest: str = field(init=False, default="")
    _state: Literal["begin", "text", "head", "arguments", "close", "after"] = field(init=False, default="begin")
    _depth: int = field(init=False, default=0)
    _in_string: bool = field(init=False, default=False)

    @property
    def has_whole_calls(self) -> bool:
        """Whether there are calls, and the last one's arguments have ended."""
        return self.calls > 0 and self._state != "arguments"

    def add(self, text: str, is_last: bool = False) -> list[str | ToolCallDelta]:
        """What can be sent when this has come: text and parts of calls, in their order.

        Args:
            text: of the answer.
            is_last: whether nothing follows, so that nothing is held back.
        """
        self._rest += text
        return list(self._read(is_last))

    def _read(self, is_last: bool) -> Iterator[str | ToolCallDelta]:
        form = self.tools.format
        while self._rest:
            match self._state:
                case "begin":
                    self._state = "text" if form.speaks_marker and not self.tools.is_forced else "head"
                case "text":
                    text, marker, _ = self._rest.partition(form.marker) if form.marker else (self._rest, "", "")
                    if not marker and not is_last:
                        text = text[: len(text) - _overlap(text, form.marker)]
                    if text:
                        yield text
                    self._rest = self._rest[len(text) :]
                    if not marker:
                        return
                    self._state = "head"
                case "head":
                    size = len(form.marker) if self._rest.startswith(form.marker) else 0
                    begin = _end(_BEFORE_CALLS, self._rest, size)
                    head = _HEAD.match(self._rest, begin)
                    if head and head[1] in self.tools.schemas and head[2] in _KEYS:
                        yield ToolCallDelta(index=self.calls, id=f"call_{uuid4().hex[:24]}", name=head[1])
                        self.calls += 1
                        self._rest, self._state = self._rest[head.end() :], "arguments"
                    elif not is_last and not head and _HEAD_BEGINNING.fullmatch(self._rest, begin):
                        return
                    else:  # no call
                        if size:
                            yield self._rest[:size]
                        self._rest, self._state = self._rest[size:], "text"
                case "arguments":
                    if not (end := self._scan() or (is_last and len(self._rest))):
                        return
                    yield ToolCallDelta(index=self.calls - 1, arguments=self._rest[:end])
                    self._rest = self._rest[end:]
                    if not self._depth:
                        self._state, self._depth = "close", 1
                case "close":
                    if not (end := self._scan()):
                        return
                    self._rest = self._rest[end:]
                    if not self._depth:
                        self._state = "after"
                case "after":
                    self._rest = self._rest[_end(_AFTER_CALL, self._rest) :]
                    if _MARK_OF_END.startswith(self._rest) and not is_last:
                        return
                    self._state = "text" if form.speaks_marker else "head"

    def _scan(self) -> int:
        """Where the object that has begun ends; where the text does if it goes on, less a cut escape."""
        at = 0
        while turn := (_STRING_TURN if self._in_string else _JSON_TURN).search(self._rest, at):
            at = turn.end()
            if turn[0] == "\\":  # what it escapes has not come
                return turn.start()
            if turn[0] == '"':
                self._in_string = not self._in_string
            elif not self._in_string:
                self._depth += 1 if turn[0] in "{[" else -1
                if not self._depth:
                    return at
        return len(self._rest)


def _end(pattern: re.Pattern[str], text: str, begin: int = 0) -> int:
    found = pattern.match(text, begin)
    return begin if found is None else found.end()


def _overlap(text: str, marker: str) -> int:
    return next((size for size in range(len(marker) - 1, 0, -1) if text.endswith(marker[:size])), 0)


def read_calls(tools: Tools, answer: str) -> list[str | ToolCall]:
    """Text and calls of a whole answer, in their order."""
    items: list[str | ToolCall] = []
    for part in ToolParser(tools).add(answer, is_last=True):
        last = items[-1] if items else None
        if isinstance(part, str):
            items[-1:] = [last + part] if isinstance(last, str) else [*items[-1:], part]
        elif part.id or not isinstance(last, ToolCall):
            items.append(ToolCall(name=part.name, arguments=part.arguments, id=part.id))
        else:
            items[-1] = replace(last, arguments=last.arguments + part.arguments)
    return items
