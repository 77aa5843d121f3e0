"""What llguidance is told of a vocabulary: special and added tokens, and texts that a guide forces."""

import re
import time

import numpy as np
import pytest
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Library

from attendant.sampling_params import Structure
from attendant.tokenizer import Tokenizer
from serving.engine.sampling.guide import Guides
from serving.engine.sampling.guide_vocabulary import GuideVocabulary
from serving.gateway.tools import HERMES, Tools
from tests.serving.engine.sampling.test_guide import Model, grammar, regex, schema
from tests.text_checkpoints import byte_level_bpe

SPECIAL = "x<|endoftext|>y"


@pytest.fixture(scope="module")
def shipped():
    return Model("stdlib-lm")


@pytest.mark.parametrize(
    "guide",
    [
        schema({"const": SPECIAL}),
        schema({"type": "object", "properties": {SPECIAL: {"enum": ["a", SPECIAL]}}, "required": [SPECIAL]}),
        Structure(kind="json_schema", text='{"const": "x\\u003c|endoftext|>"}'),
        regex(re.escape(SPECIAL)),
        schema({"type": "string", "pattern": re.escape(SPECIAL)}),
    ],
)
def test_a_guide_may_say_a_special_tokens_text_which_is_then_text(shipped, guide):
    text, is_whole = shipped.answer(guide, 0)
    assert "<|endoftext|>" in text or not is_whole


def called(*contents):
    """A tokenizer as Qwen's, which composes characters and has added tokens that are no special ones."""
    library = byte_level_bpe()
    library.normalizer = normalizers.NFC()
    library.add_tokens([AddedToken(content, normalized=False) for content in contents])
    return library


@pytest.mark.planted
@pytest.mark.parametrize("content", ["<end>", "e"], ids=["added", "ordinary"])
def test_an_end_token_that_says_a_text_comes_only_where_the_answer_may_end(content):
    library = called("<end>")
    end = library.token_to_id(content)
    guide = Guides(Tokenizer(library), library.get_vocab_size(), [end]).create(schema({"type": "string"}))
    quote = library.token_to_id('"')
    assert not guide.allowed()[end]
    guide.take(quote)
    guide.take(library.token_to_id("a"))
    assert not guide.allowed()[end], "an answer that ends there is no JSON"
    guide.take(quote)
    assert guide.is_complete or guide.allowed()[end]


def test_a_long_text_that_is_forced_takes_no_longer_at_each_of_its_tokens(shipped):
    text = "ab cd " * 10_000
    guide = shipped.guides.create(regex(text))
    began_s = time.process_time()
    for _ in range(20):
        guide.take(int(np.flatnonzero(guide.allowed())[0]))
    assert time.process_time() - began_s < 20 * 0.01, "30 ms each where all of it was tokenized"


@pytest.mark.planted
def test_a_text_that_rows_force_one_after_another_is_tokenized_once(monkeypatch):
    vocabulary, asked = GuideVocabulary(Tokenizer(called("<a>")), called("<a>").get_vocab_size(), [0]), []
    encode = GuideVocabulary._encode
    monkeypatch.setattr(GuideVocabulary, "_encode", lambda self, text: asked.append(text) or encode(self, text))
    fresh = GuideVocabulary(Tokenizer(called("<a>")), called("<a>").get_vocab_size(), [0])
    text = "e\u0301 ".encode() * 500  # which its normalizer composes
    first, *others = (fresh(text) for _ in range(16))
    assert first and all(other == first for other in others) and first == vocabulary(text)
    assert len(asked) == 2 and max(map(len, asked)) <= 128


@pytest.mark.parametrize("is_forced", [True, False])
def test_an_added_token_that_is_none_of_the_special_ones_is_text(is_forced):
    library = called("<tool_call>", "</tool_call>")
    tools = Tools(schemas={"f": {"type": "object", "maxProperties": 0}}, format=HERMES, is_forced=is_forced)
    guide = Guides(Tokenizer(library), library.get_vocab_size(), [1]).create(grammar(tools.grammar()))
    begin, end = map(library.token_to_id, ("<tool_call>", "</tool_call>"))
    written = [] if is_forced else [begin]
    said = library.encode('\n{"name": "f", "arguments": {}}\n', add_special_tokens=False).ids
    for token in (*written, *(said[1:] if is_forced else said)):
        guide.take(token)
    assert np.flatnonzero(guide.allowed()).tolist() == [end]
    guide.take(end)
    assert guide.allowed()[1]


def test_what_is_forced_is_said_as_it_stands_though_the_tokenizer_would_change_it():
    library = called()
    guides = Guides(Tokenizer(library), library.get_vocab_size(), [1])
    for text in ("cafe\u0301", "  a"):
        guide, tokens = guides.create(regex(re.escape(text))), []
        while not guide.is_complete:
            tokens.append(int(np.flatnonzero(guide.allowed())[0]))
            if tokens[-1] == 1:
                break
            guide.take(tokens[-1])
        assert library.decode(tokens) == text


def test_a_token_beyond_the_vocabulary_says_nothing():
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    library = Library(
        models.BPE({letter: number for number, letter in enumerate(letters)} | {"ab": 9000}, [("a", "b")])
    )
    library.pre_tokenizer, library.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    guide = Guides(Tokenizer(library), library.get_vocab_size(), [letters.index("z")]).create(regex("abc"))
    assert np.flatnonzero(guide.allowed()).tolist() == [letters.index("a")]
