"""A text that is too long is refused by its length, or by its beginning: never by tokenizing all of it."""

import pytest

from attendant.errors import InputError
from attendant.text_bounds import most_characters, require_short
from attendant.tokenizer import RenderedText, Tokenizer
from tests.attendant.test_tokenization import characters


class Counted:
    """One token a character; how many characters it was ever given."""

    def __init__(self, characters_of_a_token=1):
        self.characters, self._width = 0, characters_of_a_token

    def __call__(self, text):
        self.characters += len(text)
        return len(text) // self._width


@pytest.mark.parametrize("longest", [1, 100, 1000])
def test_a_text_of_more_characters_than_its_tokens_can_have_is_refused_unread(longest):
    count = Counted()
    with pytest.raises(InputError, match=f"at most {longest} tokens"):
        require_short("a" * (most_characters(longest, 8) + 1), longest, 8, count)
    assert count.characters == 0


@pytest.mark.planted
def test_of_a_long_text_the_beginning_alone_is_tokenized():
    count = Counted()
    with pytest.raises(InputError, match="at most 1000 tokens"):
        require_short("a" * most_characters(1000, 64), 1000, 64, count)
    assert count.characters < 10_000


def test_a_text_of_the_longest_tokens_passes_whatever_its_length():
    require_short("a" * 64 * 1000, 1000, 64, Counted(64))


def test_a_short_text_is_not_tokenized_twice():
    count = Counted()
    require_short("a" * 1000, 1000, 8, count)
    assert count.characters == 0


@pytest.mark.parametrize("kind", [str, RenderedText])
def test_a_tokenizer_refuses_a_megabyte_without_reading_it(kind, monkeypatch):
    tokenizer = Tokenizer(characters("ab"))
    monkeypatch.setattr(tokenizer, "_tokenizer", None)
    monkeypatch.setitem(vars(tokenizer), "_with_specials", None)
    with pytest.raises(InputError, match="1000000 characters"):
        tokenizer.encode(kind("a" * 1_000_000), longest=256)
