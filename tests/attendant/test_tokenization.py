import pytest
from tokenizers import AddedToken, Regex, decoders, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Library
from tokenizers.models import BPE, Unigram, WordLevel, WordPiece

from attendant.errors import ArtefactError, ConfigError, InputError
from attendant.tokenization import load_tokenizer
from attendant.tokenizer import UNKNOWN_TOKEN, RenderedText, SpecialText, Tokenizer

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


def with_ends():
    """A text of letters between two special tokens; the first is not of one piece with anything."""
    library = characters()
    specials = [("<s>", library.token_to_id("<s>")), ("</s>", library.token_to_id("</s>"))]
    library.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=specials)
    return library


def test_special_tokens_of_the_tokenizers_own_are_there_and_count():
    tokenizer = Tokenizer(with_ends())
    assert tokenizer.encode("ab", longest=4) == [1, 4, 5, 2]
    assert "at most 3 tokens" in refusal("ab", longest=3, tokenizer=tokenizer).expected


def test_a_text_of_special_tokens_only_says_nothing():
    assert refusal("", tokenizer=Tokenizer(with_ends())).expected == "a text of at least one token"


@pytest.mark.parametrize("text", ["a</s>b", "</s>", "<s></s>", "<<unk>", "a <pad>"])
def test_a_piece_of_a_unigram_model_that_reads_like_a_special_token_stays_text(text):
    pieces = [(token, 0.0) for token in SPECIALS] + [(character, -5.0) for character in "ab </s>unkpd"]
    library = Library(Unigram(pieces, unk_id=SPECIALS.index(UNKNOWN_TOKEN)))
    library.decoder = decoders.Fuse()
    library.add_special_tokens(list(SPECIALS))
    ids = Tokenizer(library, "keep").encode(text, longest=99)
    assert not set(ids) & set(range(len(SPECIALS)))
    assert Tokenizer(library).decode(ids) == text


def test_a_word_that_reads_like_a_special_token_stays_text():
    library = Library(WordLevel({**{token: number for number, token in enumerate(SPECIALS)}, "a": 4}, UNKNOWN_TOKEN))
    library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    library.add_special_tokens(list(SPECIALS))
    assert Tokenizer(library, "keep").encode("a </s>", longest=9) == [4, 3, 3]


def test_text_outside_the_vocabulary_is_kept_as_unknown_where_the_model_was_trained_so(tmp_path):
    characters().save(str(tmp_path / "tokenizer.json"))
    assert load_tokenizer(tmp_path, {"unknown": "keep"}).encode("a€b", longest=9) == [4, 3, 5]
    for options in (None, {}, {"unknown": "refuse"}):
        assert "€" in refusal("a€b", tokenizer=load_tokenizer(tmp_path, options)).found


@pytest.mark.parametrize("options", [{"unknown": "drop"}, {"unknwon": "keep"}], ids=str)
def test_unknown_options_are_refused(options, tmp_path):
    with pytest.raises(ConfigError, match="tokenizer options"):
        load_tokenizer(tmp_path, options)


def test_a_folder_without_a_tokenizer_is_refused_with_the_path(tmp_path):
    with pytest.raises(ArtefactError, match=str(tmp_path / "tokenizer.json")):
        load_tokenizer(tmp_path)


def test_in_a_rendered_prompt_special_tokens_are_meant_and_none_is_added():
    library = characters()
    library.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 1)])
    tokenizer = Tokenizer(library)
    assert tokenizer.encode(RenderedText("<s>ab</s>"), longest=10) == [1, 4, 5, 2]
    assert tokenizer.encode("ab", longest=10) == [1, 4, 5]
    with pytest.raises(InputError, match="at most 2 tokens"):
        tokenizer.encode(RenderedText("<s>ab</s>"), longest=2)
    with pytest.raises(InputError, match="at least one token"):
        tokenizer.encode(RenderedText(""), longest=2)


@pytest.mark.parametrize(
    ("normalizer", "disguised"),
    [
        (normalizers.NFKC(), "\uff1cim\uff1e"),
        (normalizers.Lowercase(), "<IM>"),
        (normalizers.NFD(), "<im\u226f"),  # a > with a stroke, which is put behind the token
        (normalizers.Replace("``", "<"), "``im>"),
        (normalizers.NFC(), None),
    ],
)
def test_a_special_token_that_a_normalizer_makes_of_other_characters_is_refused_in_a_chat(normalizer, disguised):
    library = Library(BPE({"a": 0, "<unk>": 1}, [], unk_token="<unk>"))
    library.normalizer = normalizer
    library.add_special_tokens(["<unk>", AddedToken("<im>", normalized=True)])
    tokenizer = Tokenizer(library, unknown="keep")
    assert tokenizer.encode(RenderedText("a<im>ab"), 9) == [0, 2, 0, 1], "an unknown character is no special token"
    if disguised is not None:
        with pytest.raises(InputError, match="text without '<im>'"):
            tokenizer.encode(RenderedText(f"a{disguised}a"), 9)


@pytest.mark.parametrize("text", ["z", RenderedText("z")])
@pytest.mark.parametrize(
    "model",
    [
        BPE({"a": 0}, [], unk_token="[UNK]"),
        Unigram([("a", 0.0)], None),
        WordLevel({"a": 0}, unk_token="[UNK]"),
        WordPiece({"a": 0}, unk_token="[UNK]"),
    ],
)
def test_a_vocabulary_without_its_unknown_token_refuses_other_characters(model, text):
    tokenizer = Tokenizer(Library(model))
    assert tokenizer.encode("a", 9) == [0]
    with pytest.raises(InputError, match=r"text of the model's vocabulary 'a'; found .*(?i:unk).* for 'z'"):
        tokenizer.encode(text, 9)


def bytes_of_composed_text():
    library = Library(
        BPE({byte: number for number, byte in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, [])
    )
    library.normalizer = normalizers.NFC()
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return library


def words(*others):
    library = Library(WordPiece({one: number for number, one in enumerate((*SPECIALS, *others))}, unk_token="<unk>"))
    library.normalizer = normalizers.BertNormalizer(lowercase=True)
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return library


@pytest.mark.parametrize(
    ("library", "text", "offsets"),
    [
        # Two bytes are the é, which the text says in two characters.
        (bytes_of_composed_text(), "cafe\u0301 au", [0, 1, 2, 3, 3, 5, 6, 7]),
        (bytes_of_composed_text(), "a🙃 b", [0, 1, 1, 1, 1, 2, 3]),
        (words("the", "cat", "##s", "sat"), "The  Cats\tsat", [0, 3, 8, 9]),
        (words("cat"), "dog cat dog cat", [0, 3, 7, 11]),
        (with_ends(), "ab", [0, 0, 1, 2]),
        (with_ends(), SpecialText("<s>ab"), [0, 0, 3, 4, 5]),
    ],
)
def test_offsets_count_characters_of_the_text_as_it_was_written(library, text, offsets):
    tokenizer = Tokenizer(library, unknown="keep")
    assert tokenizer.offsets(text) == offsets
    assert len(tokenizer.encode(text, 99)) == len(offsets)


def test_offsets_of_a_rendered_text_are_those_of_its_own_tokens():
    tokenizer = Tokenizer(with_ends())
    assert tokenizer.offsets(RenderedText("<s>ab")) == [0, 3, 4]
