import shutil

import pytest
import transformers
from sentencepiece import sentencepiece_model_pb2

from attendant.errors import ArtefactError, InputError
from attendant.marian_tokenization import MarianTokenizer
from attendant.tokenization import load_tokenizer
from models.checkpoints.importers.library import quietly
from tests.models.sentencepieces import write_marian_files

TEXTS = [
    "The house is small.",
    "Three cats, 2 dogs and 1 naïve fox!",
    "  two   spaces\nand a line ",
    "日本 😀",
    "don't (stop): 50 %",
    ">>de<< The house",
    ">>xx<< The house",
    ">> not a code",
    "a >>de<< inside",
    "A FINE thing.",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("marian")
    write_marian_files(place, leave_out=("▁fine",))
    return place


@pytest.fixture(scope="module")
def theirs(folder):
    with quietly():
        return transformers.MarianTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def ours(folder):
    return load_tokenizer(folder, {"unknown": "keep"})


@pytest.mark.parametrize("text", TEXTS)
def test_the_token_ids_are_transformers_own(text, ours, theirs):
    assert ours.encode(text, longest=200) == theirs(text)["input_ids"]


@pytest.mark.parametrize("text", TEXTS)
def test_the_text_of_token_ids_is_transformers_own(text, ours, theirs):
    ids = theirs(text_target=text)["input_ids"]
    assert ours.decode([*ids, theirs.pad_token_id]) == theirs.decode(ids, skip_special_tokens=True)


def test_a_text_survives_encoding_and_decoding(ours):
    assert ours.decode(ours.encode("The small house is by the sea.", longest=99)) == "The small house is by the sea."


def test_an_end_that_a_user_writes_is_text(ours, theirs):
    ids = ours.encode("a</s>b", longest=99)
    assert ids.count(theirs.eos_token_id) == 1
    assert ids[-1] == theirs.eos_token_id


@pytest.mark.parametrize("text", ["", "   "], ids=repr)
def test_a_text_in_which_nothing_is_said_is_refused(text, ours):
    with pytest.raises(InputError, match="a text of at least one token"):
        ours.encode(text, longest=99)


def test_a_text_of_the_longest_length_with_its_end_is_taken_and_one_more_token_refused(ours):
    length = len(ours.encode("The house", longest=99))
    assert len(ours.encode("The house", longest=length)) == length
    with pytest.raises(InputError, match=rf"at most {length - 1} tokens; found {length} in 'The house'"):
        ours.encode("The house", longest=length - 1)


def test_text_outside_the_vocabulary_is_refused_by_name_unless_it_is_to_be_kept(folder, ours):
    with pytest.raises(InputError) as caught:
        load_tokenizer(folder).encode("The 日 house", longest=99)
    assert caught.value.found == "['日'] in 'The 日 house'"
    assert ours.encode("The 日 house", longest=99)


def test_a_token_outside_the_vocabulary_has_no_text(ours):
    assert ours.decode([10**6]) == ""


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("source.spm", b""),
        ("target.spm", b"no model"),
        ("vocab.json", b"{"),
        ("vocab.json", b"[]"),
        ("vocab.json", b'{"<unk>": 1}'),
        ("vocab.json", b'{"</s>": "x", "<unk>": 1}'),
        ("source.spm", None),
    ],
)
def test_a_file_that_is_no_such_file_is_refused_with_its_folder(name, content, tmp_path):
    write_marian_files(tmp_path)
    (tmp_path / name).unlink()
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ArtefactError) as caught:
        MarianTokenizer.load(tmp_path)
    assert caught.value.expected == f"readable source.spm, target.spm, vocab.json in {tmp_path}"


@pytest.mark.parametrize("spec", ["normalizer_spec", "denormalizer_spec"])
def test_a_normalization_that_makes_much_of_a_letter_is_refused(folder, tmp_path, spec):
    copied = shutil.copytree(folder, tmp_path / "grown")
    model = sentencepiece_model_pb2.ModelProto.FromString((copied / "source.spm").read_bytes())
    charsmap = model.normalizer_spec.precompiled_charsmap
    trie = charsmap[: 4 + int.from_bytes(charsmap[:4], "little")]
    getattr(model, spec).precompiled_charsmap = trie + 100_000 * b"a" + b"\0"
    (copied / "source.spm").write_bytes(model.SerializeToString())
    with pytest.raises(ArtefactError, match="at most 128 characters of one"):
        MarianTokenizer.load(copied)
