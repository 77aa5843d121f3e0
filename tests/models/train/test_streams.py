from itertools import groupby

from tokenizers import Tokenizer as Library

from attendant.tokenizer import Tokenizer
from models.train.docstring_tokenizer import END_TOKEN, train_tokenizer
from models.train.streams import BYTES_AND_END, END_BYTE, byte_streams, token_streams

CORPUS = {"one": ("Return it.", "Naïve café."), "two": ("Zebra.",)}
TOKENIZER = Tokenizer(Library.from_str(train_tokenizer(["Return it."] * 5, 262).to_str()))


def parts(stream: list[int], end: int) -> list[list[int]]:
    assert (stream[0], stream[-1]) == (end, end)
    return [list(group) for is_end, group in groupby(stream, lambda token: token == end) if not is_end]


def test_a_module_is_one_stream_of_tokens_with_the_special_one_around_each_text() -> None:
    found = [
        [TOKENIZER.decode(part) for part in parts(stream, END_TOKEN)] for stream in token_streams(CORPUS, TOKENIZER)
    ]
    assert found == [list(texts) for texts in CORPUS.values()]
    assert sum(stream.count(END_TOKEN) for stream in token_streams(CORPUS, TOKENIZER)) == 3 + 2


def test_a_module_is_one_stream_of_bytes_with_the_end_around_each_text() -> None:
    found = [[bytes(part).decode() for part in parts(stream, END_BYTE)] for stream in byte_streams(CORPUS)]
    assert found == [list(texts) for texts in CORPUS.values()]
    assert max(map(max, byte_streams(CORPUS))) == END_BYTE == BYTES_AND_END - 1
