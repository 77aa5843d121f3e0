"""The characters of dates: one token a character, case and white space made uniform.

Text is brought to Unicode's NFKC, runs of white space become one space, letters become lower case. Every other
character than those of :data:`ALPHABET` is the unknown token, which :class:`attendant.tokenization.Tokenizer` refuses.
"""

import string

from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import WordLevel

from attendant.tokenizer import UNKNOWN_TOKEN

SPECIALS = ("<pad>", "<s>", "</s>", UNKNOWN_TOKEN)
ALPHABET = string.ascii_lowercase + string.digits + " ,-./"


def date_tokenizer() -> Tokenizer:
    """A tokenizer with the ids 0 to 3 for :data:`SPECIALS`, then one for each character."""
    vocabulary = {token: number for number, token in enumerate([*SPECIALS, *ALPHABET])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token=UNKNOWN_TOKEN))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.NFKC(),
            normalizers.Lowercase(),
            normalizers.Replace(Regex(r"\s+"), " "),
            normalizers.Strip(),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens(list(SPECIALS))
    return tokenizer
