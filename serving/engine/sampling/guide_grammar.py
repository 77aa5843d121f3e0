"""A guide as a grammar of llguidance, compiled.

Source: M. Moskal et al., llguidance, https://github.com/guidance-ai/llguidance.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from attendant.errors import InputError
from attendant.sampling_params import Structure
from attendant.text_bounds import shortened

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

LIMITS: dict[str, Any] = {
    "initial_lexer_fuel": 200_000,
    "step_lexer_fuel": 40_000,
    "max_items_in_row": 500,
    "step_max_items": 20_000,
}
"""What a step may cost, as every request waits for it: with llguidance's own limits it took up to 1.6 s.

Of the lexer a step of `\\w+@\\w+` takes up to 30,000, which is a millisecond.
"""
_ANY_OBJECT = '{"type": "object"}'
_COMPACT: Any = {"whitespace_flexible": False}
_BLANKS: Any = {"whitespace_pattern": r"[ \n\r\t]{1,40}"}
"""A model that has lost its way writes blanks to the end where JSON sets no bound."""
_KINDS = {"regex": "regular expression", "grammar": "grammar"}


def byte_vocabulary() -> LLTokenizer:
    """A vocabulary of the 256 bytes, in which every guide can be tried that names no token."""
    from llguidance import LLTokenizer

    return LLTokenizer("byte")


def compile_guide(vocabulary: LLTokenizer, guide: Structure) -> LLMatcher:
    """What says which tokens may come next in an answer of a form.

    Raises:
        InputError: the guide is none that llguidance understands.
    """
    from llguidance import LLMatcher, LLParserLimits

    limits = LLParserLimits(verbose_errors=False, **LIMITS)
    matcher = LLMatcher(vocabulary, _grammar(guide), log_level=0, limits=limits)
    if matcher.is_error():
        raise _unreadable(guide, matcher.get_error())
    return matcher


def _grammar(guide: Structure) -> str:
    from llguidance import LLMatcher, grammar_from

    if guide.kind == "regex":
        return LLMatcher.grammar_from_regex(guide.text)
    try:
        if guide.kind == "grammar":
            return grammar_from("grammar", guide.text)
        if guide.kind == "json":
            return LLMatcher.grammar_from_json_schema(_ANY_OBJECT, overrides=_COMPACT)
        blanks = _BLANKS if _wants_blanks(guide.text) else _COMPACT
        return LLMatcher.grammar_from_json_schema(guide.text, overrides=blanks)
    except ValueError as error:
        raise _unreadable(guide, str(error)) from error


def _wants_blanks(schema: str) -> bool:
    # As llguidance's own options say it.
    if "x-guidance" not in schema:
        return False
    try:
        options = json.loads(schema)["x-guidance"]
        return bool(options.get("whitespace_flexible") or options.get("whitespace_pattern"))
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return False  # which llguidance says in its words


def _unreadable(guide: Structure, message: str) -> InputError:
    kind = _KINDS.get(guide.kind, "JSON schema")
    return InputError(f"a {kind} that llguidance can follow", on_one_line(message), "correct the guide")


def on_one_line(message: str) -> str:
    """What a library says, short and without breaks."""
    return shortened(" ".join(shortened(line.strip(), 100) for line in message.splitlines() if line.strip()), 400)
