"""The texts of a module as one stream of tokens or bytes, an end-of-text token before, between and behind them."""

import sys

from attendant.tokenizer import TextTokenizer
from models.train.docstring_tokenizer import END_TOKEN
from models.train.docstrings import Corpus

END_BYTE = 256
BYTES_AND_END = 257


def token_streams(corpus: Corpus, tokenizer: TextTokenizer) -> list[list[int]]:
    """One stream a module, of tokens; the tokenizer itself puts the special token before each text."""
    return [
        [token for text in texts for token in tokenizer.encode(text, sys.maxsize)] + [END_TOKEN]
        for texts in corpus.values()
    ]


def byte_streams(corpus: Corpus) -> list[list[int]]:
    """One stream a module, of the bytes 0 to 255 and 256 for the end of a text."""
    return [[byte for text in texts for byte in (END_BYTE, *text.encode())] + [END_BYTE] for texts in corpus.values()]
