from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library

from attendant.tokenizer import Tokenizer
from models.train.docstring_tokenizer import END_OF_TEXT, END_TOKEN, train_tokenizer

TEXTS = ["Return the number of items.", "Return the sum of the numbers.", "    indented\n    twice\n\nReturn it."] * 3
TRAINED = train_tokenizer(TEXTS, 280).to_str()
TOKENIZER = Tokenizer(Library.from_str(TRAINED))
any_text = st.text(st.characters(codec="utf-8"), min_size=1)


@given(any_text)
def test_any_text_comes_back_byte_for_byte(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text, len(text.encode()) + 1)) == text


@given(any_text)
def test_the_special_token_is_put_before_a_text_and_stands_nowhere_else(text: str) -> None:
    tokens = TOKENIZER.encode(text, len(text.encode()) + 1)
    assert [place for place, token in enumerate(tokens) if token == END_TOKEN] == [0]


def test_the_special_token_that_a_user_writes_is_text() -> None:
    tokens = TOKENIZER.encode(f"one{END_OF_TEXT}two", 99)
    assert tokens.count(END_TOKEN) == 1
    assert TOKENIZER.decode(tokens) == f"one{END_OF_TEXT}two"


def test_training_twice_gives_the_same_tokenizer_of_the_size_asked_for() -> None:
    assert train_tokenizer(TEXTS, 280).to_str() == TRAINED
    library = Library.from_str(TRAINED)
    assert library.get_vocab_size() == 280
    assert library.token_to_id(END_OF_TEXT) == END_TOKEN


def test_what_is_frequent_becomes_one_token() -> None:
    assert len(TOKENIZER.encode("Return the", 99)) == 3
    assert len(TOKENIZER.encode("Zebra", 99)) == 6
