"""Tokenizers of others that make gigabytes of a letter, and those that panic."""

import io
import time

import pytest
from sentencepiece import SentencePieceTrainer, sentencepiece_model_pb2
from tokenizers import Regex, decoders, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Library
from tokenizers.models import BPE, WordLevel

from attendant.errors import ArtefactError, InputError
from attendant.tokenizer import Tokenizer

LETTERS = normalizers.Replace("a", 10 * "a")
TWICE = processors.TemplateProcessing(single="$A $A", special_tokens=[])


def library(**parts):
    made = Library(WordLevel({"<unk>": 0, "a": 1, "b": 2, **parts.pop("vocabulary", {})}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    for name, part in parts.items():
        setattr(made, name, part)
    return made


def load(tmp_path, made):
    made.save(str(tmp_path / "tokenizer.json"))
    return Tokenizer.load(tmp_path / "tokenizer.json", "keep")


@pytest.mark.planted
@pytest.mark.parametrize(
    "parts",
    [
        {"normalizer": normalizers.Sequence([LETTERS] * 12)},
        {"normalizer": normalizers.Sequence([normalizers.Sequence([LETTERS] * 6)] * 2)},
        {"normalizer": normalizers.Sequence([normalizers.Replace(Regex("x*"), "y")] * 30)},
        {"normalizer": normalizers.Replace("", 1000 * "a")},
        {"normalizer": normalizers.Prepend(100_000 * "a")},
        {"normalizer": normalizers.Sequence([normalizers.ByteLevel()] * 10)},
        {"normalizer": normalizers.Sequence([normalizers.NFKC()] * 1000)},
        {"pre_tokenizer": pre_tokenizers.Sequence([pre_tokenizers.ByteLevel()] * 10)},
        {"post_processor": processors.TemplateProcessing(single=100_000 * "<s> " + "$A", special_tokens=[("<s>", 1)])},
        {"post_processor": processors.Sequence([TWICE] * 30)},
        {"post_processor": processors.Sequence([processors.BertProcessing(("a", 1), ("b", 2))] * 60)},
        {"decoder": decoders.Sequence([decoders.Replace("a", 10 * "a")] * 12)},
        {"vocabulary": {2000 * "c": 3}},
    ],
)
def test_a_tokenizer_that_makes_much_of_little_is_refused_before_it_is_used(tmp_path, parts):
    began_s = time.monotonic()
    with pytest.raises(ArtefactError, match=r"which make|entries of at most 1024 characters"):
        load(tmp_path, library(**parts))
    assert time.monotonic() - began_s < 5


@pytest.mark.parametrize(
    "parts",
    [
        {"normalizer": normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])},
        {"normalizer": normalizers.Sequence([normalizers.NFKD(), normalizers.Lowercase(), normalizers.StripAccents()])},
        {"normalizer": normalizers.BertNormalizer(), "post_processor": processors.BertProcessing(("a", 1), ("b", 2))},
        {"pre_tokenizer": pre_tokenizers.ByteLevel(), "decoder": decoders.ByteLevel()},
        {"pre_tokenizer": pre_tokenizers.Metaspace(), "decoder": decoders.Metaspace()},
        {"post_processor": processors.TemplateProcessing(single="a $A b", special_tokens=[("a", 1), ("b", 2)])},
    ],
)
def test_those_that_models_have_are_read(tmp_path, parts):
    load(tmp_path, library(**parts))


def test_sentencepieces_own_normalization_is_read_and_one_that_grows_a_text_is_not(tmp_path):
    model = io.BytesIO()
    SentencePieceTrainer.train(sentence_iterator=iter(["a b ab"]), model_writer=model, vocab_size=6, minloglevel=2)
    charsmap = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue()).normalizer_spec.precompiled_charsmap
    spaces = normalizers.Replace(Regex(" {2,}"), "▁")
    made = library(normalizer=normalizers.Sequence([normalizers.Precompiled(charsmap), normalizers.Strip(), spaces]))
    load(tmp_path, made)
    trie = charsmap[: 4 + int.from_bytes(charsmap[:4], "little")]
    with pytest.raises(ArtefactError, match="which make 1e\\+05"):
        load(tmp_path, library(normalizer=normalizers.Precompiled(trie + 100_000 * b"a" + b"\0")))


@pytest.mark.parametrize("affix", ["end_of_word_suffix", "continuing_subword_prefix"])
def test_what_a_model_puts_beside_each_letter_is_bounded(tmp_path, affix):
    load(tmp_path, Library(BPE({"<unk>": 0, "a": 1}, [], byte_fallback=True, **{affix: "</w>"})))
    with pytest.raises(ArtefactError, match="model of at most"):
        load(tmp_path, Library(BPE({"<unk>": 0, "a": 1}, [], byte_fallback=True, **{affix: 1000 * "x"})))


def test_the_dropout_of_a_training_is_left_out(tmp_path):
    vocabulary = {"<unk>": 0, "a": 1, "b": 2, "ab": 3}
    tokenizer = load(tmp_path, Library(BPE(vocabulary, [("a", "b")], dropout=0.5)))
    assert {tuple(tokenizer.encode(10 * "ab", 99)) for _ in range(9)} == {(3,) * 10}


def test_a_panic_of_the_library_is_an_error_of_ours(tmp_path, capfd):
    text = 60 * "a" + "b"
    tokenizer = load(tmp_path, library(pre_tokenizer=pre_tokenizers.Split(Regex("(a+)+$"), "isolated")))
    with pytest.raises(InputError):
        tokenizer.encode(text, longest=100)
    damaged = library(normalizer=normalizers.Replace("a", "b"))
    path = tmp_path / "tokenizer.json"
    damaged.save(str(path))
    replaced = '{"type": "Precompiled", "precompiled_charsmap": "AAAA"}'
    begin = path.read_text().index('"normalizer": {')
    end = path.read_text().index('"pre_tokenizer"')
    path.write_text(path.read_text()[:begin] + f'"normalizer": {replaced},\n' + path.read_text()[end:])
    with pytest.raises(ArtefactError, match="readable tokenizer"):
        Tokenizer.load(path)
