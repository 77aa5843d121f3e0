import pytest
from tokenizers import Regex, decoders, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Library
from tokenizers.models import WordLevel

from models.errors import ArtefactError, InputError
from models.tokenization import UNKNOWN_TOKEN, Tokenizer

SPECIALS = ("<pad>", "<s>", "</s>", UNKNOWN_TOKEN)


def characters(alphabet="abc 12"):
    """One token a character; letters become lower case."""
    vocabulary = {token: number for number, token in enumerate([*SPECIALS, *alphabet])}
    library = Library(WordLevel(vocabulary, unk_token=UNKNOWN_TOKEN))
    library.normalizer = normalizers.Lowercase()
    library.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    library.decoder = decoders.Fuse()
    library.add_special_tokens(list(SPECIALS))
    return library


TOKENIZER = Tokenizer(characters())


def refusal(text, longest=10, tokenizer=TOKENIZER):
    with pytest.raises(InputError) as caught:
        tokenizer.encode(text, longest)
    return caught.value


def test_a_text_becomes_its_token_ids():
    assert TOKENIZER.encode("Ab 2", longest=4) == [4, 5, 7, 9]


@pytest.mark.parametrize("text", ["a", "abc 12", "2 cab"])
def test_a_text_survives_encoding_and_decoding(text):
    assert TOKENIZER.decode(TOKENIZER.encode(text, longest=10)) == text


def test_special_tokens_are_left_out_of_the_text():
    assert TOKENIZER.decode([1, 4, 5, 2, 0, 0]) == "ab"
    assert TOKENIZER.decode([]) == ""


def test_an_empty_text_is_refused():
    assert (refusal("").expected, refusal("").found) == ("a text of at least one token", "''")


def test_unknown_characters_are_refused_by_name_each_once():
    error = refusal("a€b€ ñ😀")
    assert error.found == "['ñ', '€', '😀'] in 'a€b€ ñ😀'"
    assert error.expected == "text of the model's vocabulary ' 12abc'"
    assert error.remedy == "remove or replace those characters"


def test_the_unknown_token_itself_is_refused_when_a_user_writes_it():
    assert "<unk>" in refusal("a<unk>b").found


def test_a_text_of_the_longest_length_is_taken_and_one_more_token_refused():
    assert len(TOKENIZER.encode("aaaa", longest=4)) == 4
    error = refusal("aaaaa", longest=4)
    assert (error.expected, error.found) == ("at most 4 tokens", "5 in 'aaaaa'")


@pytest.mark.parametrize("ending", ["", "€"])
def test_a_message_shows_the_beginning_of_a_long_text_only(ending):
    found = refusal("a" * 5000 + ending).found
    assert found.endswith(" in '" + "a" * 60 + "…'")


def test_a_large_vocabulary_is_counted_and_not_written_out():
    tokenizer = Tokenizer(characters("".join(map(chr, range(0x4E00, 0x4E00 + 200)))))
    assert refusal("a", tokenizer=tokenizer).expected == "text of the model's vocabulary of 200 entries"


def test_a_tokenizer_is_read_from_its_file(tmp_path):
    path = tmp_path / "tokenizer.json"
    characters().save(str(path))
    assert Tokenizer.load(path).encode("cab", longest=3) == [6, 4, 5]


@pytest.mark.parametrize("content", [None, b"", b"{}", b"\xff", b'{"model": 5}'], ids=repr)
def test_a_file_that_holds_no_tokenizer_is_refused_with_its_path(content, tmp_path):
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ArtefactError) as caught:
        Tokenizer.load(path)
    assert caught.value.expected == f"a readable tokenizer at {path}"
    assert caught.value.remedy == "copy or export it again"


def test_a_tokenizer_that_would_cut_long_texts_still_refuses_them():
    library = characters()
    library.enable_truncation(max_length=4)
    assert "at most 4 tokens" in refusal("aaaaa", longest=4, tokenizer=Tokenizer(library)).expected


def test_a_special_token_that_a_user_writes_does_not_become_one():
    found = refusal("a</s>b").found
    assert "<" in found
    assert "a</s>b" in found
