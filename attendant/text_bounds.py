"""How long a text may be, found without tokenizing all of it: that takes a second a megabyte, and holds up all others.

A text of more characters than its tokens could have is refused at once. Of a long one the beginning is tokenized first:
it is refused where already that is too many tokens.
"""

from collections.abc import Callable

from attendant.errors import InputError

WIDEST_UNKNOWN = 32
"""Characters for which a token may stand in any vocabulary: a word that is unknown, blanks that are dropped."""
_USUAL = 8
"""Characters of a token, of ordinary text rather too many."""
_SPARE_CHARACTERS, _SPARE_TOKENS = 1024, 128
"""A beginning ends within a word, and may have some tokens more than the whole text has there."""


def most_characters(longest: int, widest: int) -> int:
    """How many characters a text of at most so many tokens may have.

    Args:
        longest: how many tokens.
        widest: characters of the vocabulary's longest entry.
    """
    return longest * max(widest, WIDEST_UNKNOWN) + _SPARE_CHARACTERS


def require_short(text: str, longest: int, widest: int, count: Callable[[str], int]) -> None:
    """Refuse a text that is too long to be tokenized.

    Args:
        text: what was sent.
        longest: how many tokens it may have.
        widest: characters of the vocabulary's longest entry.
        count: how many tokens the beginning of a text has.

    Raises:
        InputError: it is; a text that passes may still be too long.
    """
    most = most_characters(longest, widest)
    if len(text) > most:
        raise too_long(f"{len(text)} characters in {shortened(text)!r}", longest, most)
    beginning = _USUAL * longest + _SPARE_CHARACTERS
    if len(text) > beginning and count(text[:beginning]) > longest + _SPARE_TOKENS:
        raise InputError(f"at most {longest} tokens", f"more in {shortened(text)!r}", "shorten the text")


def too_long(found: str, longest: int, most: int) -> InputError:
    """The refusal of a text by its length alone.

    Args:
        found: its length.
        longest: how many tokens it may have.
        most: characters that so many tokens may have.
    """
    expected = f"at most {longest} tokens, which are at most {most} characters"
    return InputError(expected, found, "shorten the text")


def shortened(text: str, longest: int = 60) -> str:
    """The beginning of a text, for a message."""
    return text if len(text) <= longest else text[:longest] + "…"
