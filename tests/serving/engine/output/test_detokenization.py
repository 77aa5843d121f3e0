import numpy as np
import pytest
from tokenizers import Tokenizer as LibraryTokenizer
from tokenizers import decoders, models

from attendant.tokenizer import Tokenizer
from serving.engine.output.detokenizer import LONGEST_WAIT, IncrementalDetokenizer
from tests.text_checkpoints import SENTENCES, byte_level_bpe, word_piece

LAST_BYTE = 256


def sentence_piece():
    """Llama's own way: ▁ is a space, of which the first is dropped, and bytes stand for what has no token."""
    words = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "▁the", "▁cat", "s", "▁a", "e"]
    tokenizer = LibraryTokenizer(models.BPE(vocab={word: index for index, word in enumerate(words)}, merges=[]))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return tokenizer


TOKENIZERS = {"byte-level BPE": byte_level_bpe, "WordPiece": word_piece, "SentencePiece": sentence_piece}
library = pytest.mark.parametrize("make", TOKENIZERS.values(), ids=list(TOKENIZERS))


def told(tokenizer, tokens):
    text = IncrementalDetokenizer(tokenizer)
    pieces = [text.add(token) for token in tokens]
    return [*pieces, text.rest()]


@library
def test_the_pieces_together_are_the_text_of_all_tokens(make):
    tokenizer, size = Tokenizer(make()), make().get_vocab_size()
    for tokens in np.random.default_rng(0).integers(0, size, (30, 40)).tolist():
        assert "".join(told(tokenizer, tokens)) == tokenizer.decode(tokens)


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_character_of_several_tokens_is_told_when_it_is_whole(sentence):
    library_tokenizer = byte_level_bpe(SENTENCES[:1])
    tokens = library_tokenizer.encode(sentence, add_special_tokens=False).ids
    pieces = told(Tokenizer(library_tokenizer), tokens)
    assert "".join(pieces) == sentence
    assert pieces[-1] == "" and not any("\ufffd" in piece for piece in pieces)
    assert all(pieces[:-1]) == sentence.isascii()


def test_bytes_that_make_no_character_are_told_at_the_next_one_that_is():
    tokenizer = Tokenizer(sentence_piece())
    e2, x82, c3, a9, ff = (1 + byte for byte in (0xE2, 0x82, 0xC3, 0xA9, 0xFF))
    cat = LAST_BYTE + 3
    assert told(tokenizer, [e2, x82, cat]) == ["", "", "\ufffd\ufffd cat", ""]
    assert told(tokenizer, [cat, e2]) == ["cat", "", "\ufffd"]
    assert told(tokenizer, [cat, c3, a9, cat]) == ["cat", "", "", "é cat", ""]
    assert told(tokenizer, [cat, c3, a9, ff, cat]) == ["cat", "", "", "", "\ufffd\ufffd\ufffd cat", ""]


@pytest.mark.planted
def test_bytes_read_as_in_the_whole_answer_whatever_they_are():
    tokenizer, random = Tokenizer(sentence_piece()), np.random.default_rng(0)
    parts = [[1 + byte for byte in one.encode()] for one in ("é", "€", "😀")] + [
        [1 + 0xFF],
        [1 + 0xC3],
        [LAST_BYTE + 3],
    ]
    for _ in range(200):
        tokens = [token for part in random.integers(0, len(parts), 9) for token in parts[part]]
        assert "".join(told(tokenizer, tokens)) == tokenizer.decode(tokens)


def test_a_long_run_of_whole_characters_is_told_before_it_ends():
    tokens = [1 + byte for byte in ("日" * 40).encode()]
    pieces = told(Tokenizer(sentence_piece()), tokens)
    assert "".join(pieces) == "日" * 40 and sum(map(bool, pieces)) >= 3


class CountingTokenizer(Tokenizer):
    longest = 0

    def decode(self, token_ids):
        self.longest = max(self.longest, len(token_ids))
        return super().decode(token_ids)


def test_a_long_answer_is_not_decoded_again_for_each_token():
    library_tokenizer = byte_level_bpe()
    tokenizer = CountingTokenizer(library_tokenizer)
    tokens = library_tokenizer.encode(" ".join(SENTENCES * 10), add_special_tokens=False).ids
    assert "".join(told(tokenizer, tokens)) == " ".join(SENTENCES * 10)
    assert tokenizer.longest < 10 < len(tokens)


def test_bytes_that_never_become_a_character_are_not_decoded_ever_again():
    tokenizer = CountingTokenizer(sentence_piece())
    tokens = [1 + 0xFF] * 1000
    assert "".join(told(tokenizer, tokens)) == "\ufffd" * 1000
    assert tokenizer.longest <= 3 * LONGEST_WAIT
