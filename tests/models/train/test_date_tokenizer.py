import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library

from attendant.errors import InputError
from attendant.tokenizer import Tokenizer
from models.train.date_tokenizer import ALPHABET, SPECIALS, date_tokenizer

TOKENIZER = Tokenizer(Library.from_str(date_tokenizer().to_str()))
known = st.text(st.sampled_from(ALPHABET), min_size=1, max_size=48)


@given(known.filter(str.strip))
def test_text_of_the_alphabet_comes_back_with_single_spaces(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text, 48)) == " ".join(text.split())


@given(known.filter(str.strip))
def test_each_character_is_one_token_behind_the_special_ones(text: str) -> None:
    plain = " ".join(text.split())
    ids = TOKENIZER.encode(text, 48)
    assert ids == [len(SPECIALS) + ALPHABET.index(character) for character in plain]


@given(known.filter(str.strip))
def test_case_does_not_matter(text: str) -> None:
    assert TOKENIZER.encode(text.upper(), 48) == TOKENIZER.encode(text, 48)


def test_the_special_tokens_have_the_ids_of_the_configuration() -> None:
    library = date_tokenizer()
    assert [library.token_to_id(token) for token in ("<pad>", "<s>", "</s>", "<unk>")] == [0, 1, 2, 3]


def test_decoding_drops_special_tokens_and_puts_no_spaces_between_characters() -> None:
    ids = TOKENIZER.encode("1997-03-03", 48)
    assert TOKENIZER.decode([1, *ids, 2, 0, 0]) == "1997-03-03"


def test_odd_white_space_and_full_width_digits_are_made_plain() -> None:
    assert TOKENIZER.encode(" \N{FULLWIDTH DIGIT THREE}rd\tof  March\u00a01997\n", 48) == TOKENIZER.encode(
        "3rd of march 1997", 48
    )


@pytest.mark.parametrize("text", ["3rd öf märch", "  3RD  \n öf\u00a0märch ", "öä"])
def test_unknown_characters_are_named_as_the_user_wrote_them(text: str) -> None:
    with pytest.raises(InputError) as caught:
        TOKENIZER.encode(text, 48)
    assert caught.value.found.startswith("['ä', 'ö'] in ")


@pytest.mark.parametrize("text", ["3_3_1997", "1997年", "3\u200b march", "<unk>"])
def test_text_outside_the_alphabet_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        TOKENIZER.encode(text, 48)
