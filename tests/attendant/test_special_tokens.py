"""Special tokens that stand in a text: text by default, and as transformers reads them where the client says so."""

import warnings

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, MarianTokenizer, PreTrainedTokenizerFast

from attendant.errors import InputError
from attendant.sampling_params import SamplingParams
from attendant.tokenization import load_tokenizer
from attendant.tokenizer import RenderedText, SpecialText
from tests.models.sentencepieces import SENTENCES, write_marian_files
from tests.text_checkpoints import byte_level_bpe, word_piece

LONGEST = 200
SENTINELS = [f"<extra_id_{number}>" for number in range(3)]
CHAT = ["<|im_start|>", "<|im_end|>"]


def t5():
    """A Unigram with T5's sentinels, and its end behind every text."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=120, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>")
    tokenizer.train_from_iterator(SENTENCES, trainer)
    tokenizer.add_special_tokens(SENTINELS)
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return tokenizer


def bert():
    """A WordPiece whose mask takes the blank before it, as BERT's does."""
    tokenizer = word_piece()
    tokenizer.add_special_tokens([AddedToken("[MASK]", lstrip=True, special=True)])
    return tokenizer


def qwen():
    """A byte-level BPE with tokens of a chat, and one that is none within a word."""
    tokenizer = byte_level_bpe()
    tokenizer.add_special_tokens([*CHAT, AddedToken("<think>", single_word=True, special=True)])
    return tokenizer


def lower():
    """One whose normalizer changes letters, and a token that is sought in what it makes of a text."""
    tokenizer = word_piece()
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.add_special_tokens([AddedToken("[ENT]", normalized=True, special=True)])
    return tokenizer


TEXTS = {
    t5: ["The house <extra_id_0> small.", "<extra_id_1>", "a<extra_id_2>b </s> c", "<extra_id_0><extra_id_1> the"],
    bert: ["the [MASK] sat on the mat", "the cat [MASK].[SEP] a dog", "[CLS] the"],
    qwen: ["<|im_start|>user\nthe cat<|im_end|>\n", "the</s>cat", "a <think> b<think>c", "<s>the cat"],
    lower: ["The [ENT] Cat", "the [ent] cat [SEP]"],
}
CASES = [(make, text) for make, texts in TEXTS.items() for text in texts]


@pytest.mark.planted
@pytest.mark.parametrize(("make", "text"), CASES)
def test_they_are_read_as_transformers_reads_them_where_the_client_says_so(make, text, tmp_path):
    (made := make()).save(str(tmp_path / "tokenizer.json"))
    PreTrainedTokenizerFast(tokenizer_object=made).save_pretrained(tmp_path / "theirs")
    theirs = AutoTokenizer.from_pretrained(tmp_path / "theirs")
    ours = load_tokenizer(tmp_path, {"unknown": "keep"})
    unknown = ("<unk>", "[UNK]")  # which stands for what a vocabulary lacks
    added = made.get_added_tokens_decoder().items()
    specials = {token for token, one in added if one.special and one.content not in unknown}
    assert ours.encode(SpecialText(text), LONGEST) == theirs(text)["input_ids"]
    around = theirs("")["input_ids"]
    assert [token for token in ours.encode(text, LONGEST) if token in specials] == around  # as text, none is said


@pytest.mark.parametrize(
    "text", ["a </s> small house", "a</s>b", "</s>", "<pad> a", "x <unk> y", ">>de<< a <pad> >>de<< b"]
)
def test_marians_are_too(text, tmp_path):
    write_marian_files(tmp_path)
    with warnings.catch_warnings(action="ignore"):  # it would rather have sacremoses
        theirs = MarianTokenizer.from_pretrained(tmp_path)
    ours = load_tokenizer(tmp_path, {"unknown": "keep"})
    assert ours.encode(SpecialText(text), LONGEST) == theirs(text)["input_ids"]
    assert ours.encode(text, LONGEST) != theirs(text)["input_ids"]


def test_a_text_of_nothing_is_refused_all_the_same(tmp_path):
    t5().save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(InputError, match="a text of at least one token"):
        load_tokenizer(tmp_path).encode(SpecialText(""), LONGEST)


def test_many_special_tokens_are_as_long_as_their_number(tmp_path):
    t5().save(str(tmp_path / "tokenizer.json"))
    text = "<extra_id_0>" * 3000  # of 12 characters each, more than the beginning that is looked at first
    assert len(load_tokenizer(tmp_path).encode(SpecialText(text), 3001)) == 3001


def test_what_a_chat_template_made_stays_without_those_that_are_put_around_a_text(tmp_path):
    qwen().save(str(tmp_path / "tokenizer.json"))
    ours = load_tokenizer(tmp_path)
    text = "<|im_start|>the cat"
    assert ours.encode(SpecialText(text), LONGEST)[1:] == ours.encode(RenderedText(text), LONGEST)


def test_the_default_is_that_a_text_is_text():
    assert not SamplingParams().parse_special
