"""What one token stands for, by whichever of the usual kinds of tokenizers."""

import pytest

from attendant.tokenizer import Tokenizer
from tests.serving.engine.sampling.test_guide import sentence_piece
from tests.text_checkpoints import byte_level_bpe, word_piece

TEXT = "the café's 🙂 日本 12"


@pytest.mark.parametrize("library", [byte_level_bpe(), sentence_piece()], ids=["byte-level BPE", "SentencePiece"])
def test_the_bytes_of_its_tokens_are_those_of_a_text(library):
    tokenizer = Tokenizer(library)
    tokens = [token for token in tokenizer.encode(TEXT, 99) if token not in library.get_added_tokens_decoder()]
    assert b"".join(map(tokenizer.token_bytes, tokens)).decode().removeprefix(" ") == TEXT
    assert any(len(tokenizer.token_bytes(token)) == 1 and tokenizer.token_bytes(token) >= b"\x80" for token in tokens)


def test_a_part_of_a_word_has_no_blank_before_it():
    tokenizer = Tokenizer(word_piece())
    pieces = [tokenizer.token_bytes(token) for token in tokenizer.encode("the cat sat", 99)[1:-1]]
    assert b"".join(pieces).decode().split() == ["the", "cat", "sat"]
    assert all(b"#" not in piece for piece in pieces)


def test_a_special_token_is_called_by_its_name_and_one_beyond_the_vocabulary_by_nothing():
    tokenizer = Tokenizer(byte_level_bpe())
    assert [tokenizer.token_bytes(token) for token in (0, 1, 10_000)] == [b"<s>", b"</s>", b""]


def test_an_added_token_stands_for_what_the_decoder_makes_of_it():
    library = byte_level_bpe()
    library.add_tokens(["<tool_call>", "größe", "Ġx", "日"])
    tokenizer = Tokenizer(library)
    said = [tokenizer.token_bytes(library.token_to_id(one)) for one in ("<tool_call>", "größe", "Ġx", "日")]
    assert said == [b"<tool_call>", b"gr\xf6\xdfe", b" x", "日".encode()]
    assert [text.decode(errors="replace") for text in said] == [
        library.decode([library.token_to_id(one)]) for one in ("<tool_call>", "größe", "Ġx", "日")
    ]
