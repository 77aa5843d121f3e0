"""How many tokens a prompt is taken for, before anybody has tokenized it."""

import time
import unicodedata

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from serving.gateway import gateway
from serving.gateway.gateway import LONGEST_DECOMPOSITION, most_prompt_tokens


@pytest.mark.parametrize("text", ["plain text", "cafe\u0301 é 日本", "\ufdfa" * 3, "İ", "각", "ﬃ½①"])
@pytest.mark.parametrize(
    "normalizer", [normalizers.NFKC(), normalizers.NFD(), normalizers.NFKD(), normalizers.Lowercase()], ids=str
)
def test_no_normalizer_of_unicode_makes_more_of_a_text(text, normalizer, monkeypatch):
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: number for number, letter in enumerate(letters)}, []))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    counted = len(tokenizer.encode(text).ids)
    assert counted <= most_prompt_tokens(text)
    monkeypatch.setattr(gateway, "MOST_DECOMPOSED", 0)
    assert counted <= most_prompt_tokens(text)


def test_no_character_is_longer_once_it_is_decomposed():
    longest = max(
        len(unicodedata.normalize("NFKD", character).encode()) / len(character.encode())
        for character in map(chr, (*range(0xD800), *range(0xE000, 0x110000)))
    )
    assert longest == LONGEST_DECOMPOSITION


def test_accents_in_the_wrong_order_take_no_longer_than_others():
    """Python sorts those of one letter by insertion: of 20,000 each, in some seconds."""
    text = "a" + 20_000 * "\u0301" + 20_000 * "\u0316"
    began_s = time.process_time()
    assert most_prompt_tokens(text) == len(text.encode()) + 2
    assert time.process_time() - began_s < 1.0


def test_token_ids_are_counted():
    assert most_prompt_tokens([1, 2, 3]) == 3
