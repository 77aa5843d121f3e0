"""Files of texts and conversations, an object a line: text or messages, perhaps max_tokens and the right answer.

A conversation becomes one request for each message of its user, with all messages before it as the file has them, so
that every server is sent the same whatever it answered.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attendant.errors import InputError
from attendant.records import parse_json, read_file

MOST_LINES = 100_000
MOST_TURNS = 100
Messages = tuple[Mapping[str, Any], ...]


def read_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a file, each behind the words that say where it stands; empty lines are left out.

    Raises:
        InputError: the file cannot be read, has too many lines, or one is no JSON object.
    """
    try:
        lines = (
            read_file(path).decode("utf-8-sig").removesuffix("\n").split("\n")
        )  # texts may hold what else ends a line
    except (OSError, ValueError) as error:
        raise InputError(f"lines of JSON in UTF-8 at {path}", str(error), "correct the file or its name") from error
    if len(lines) > MOST_LINES:
        raise InputError(f"at most {MOST_LINES} lines in {path}", str(len(lines)), "split the file")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            values = parse_json(line)
            if not isinstance(values, dict):
                raise ValueError(f"{line[:40]!r}")
        except ValueError as error:
            raise InputError(f"a JSON object in line {number} of {path}", str(error), "correct it") from error
        yield f"line {number} of {path}", values


def has_conversations(path: Path) -> bool:
    """Whether a dataset's first line is a conversation; false where it cannot be read, which is said later."""
    try:
        return "messages" in next(read_lines(path), ("", {}))[1]
    except InputError:
        return False


def split_turns(messages: Any, where: str) -> list[Messages]:
    """What is sent at each turn of a conversation: all messages up to one of the user's.

    Args:
        messages: as the file has them.
        where: they stand, for errors.

    Raises:
        InputError: they are no messages, none is the user's, or there are too many.
    """
    if not isinstance(messages, list) or not all(_is_message(one) for one in messages):
        raise InputError(f"messages with role and content in {where}", f"{messages!r:.80}", "correct it")
    ends = [number for number, one in enumerate(messages, 1) if one["role"] == "user"]
    if not 0 < len(ends) <= MOST_TURNS:
        raise InputError(f"1 to {MOST_TURNS} messages of the user in {where}", str(len(ends)), "correct it")
    return [tuple(messages[:end]) for end in ends]


def _is_message(one: Any) -> bool:
    return isinstance(one, dict) and isinstance(one.get("role"), str) and isinstance(one.get("content"), str | list)
