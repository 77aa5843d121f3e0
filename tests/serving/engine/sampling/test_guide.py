import json
import re
import sys
import time
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as LibraryTokenizer
from tokenizers import decoders, normalizers
from tokenizers import models as library_models

from attendant.errors import BusyError, InputError, MachineError
from attendant.sampling_params import SamplingParams, Structure
from attendant.tokenizer import Tokenizer
from serving.engine.sampling import guide as guide_module
from serving.engine.sampling.guide import MOST_GRAMMARS, Guides
from serving.engine.sampling.sampler import Sampler
from serving.engine.sampling.token_rules import TokenRules
from serving.gateway.schemas.structured_outputs import StructureFields
from tests.conftest import ROOT
from tests.text_checkpoints import byte_level_bpe, word_piece

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"enum": ["a", "é", "日本"]}, "maxItems": 3},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
BLANKS = {"whitespace_flexible": True}
MODELS = {  # its tokenizer, and its end token
    "stdlib-lm": (lambda: Tokenizer.load(shipped("stdlib-lm")), 0),
    "dates-gru": (lambda: Tokenizer.load(shipped("dates-gru")), 2),
    "byte-level BPE": (lambda: Tokenizer(byte_level_bpe()), 1),
    "SentencePiece": (lambda: Tokenizer(sentence_piece()), 2),
}


def shipped(name):
    return ROOT / "models" / "pretrained" / name / "tokenizer.json"


def sentence_piece():
    """Llama's own way: ▁ is a space, one stands before every text, and bytes stand for what has no token."""
    words = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    words += ["▁", *'abcdefghijklmnopqrstuvwxyz0123456789{}":,[]', "th", "the", "▁the", "▁a"]
    merges = [("t", "h"), ("th", "e"), ("▁", "the"), ("▁", "a")]
    vocabulary = {word: index for index, word in enumerate(words)}
    model = library_models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    tokenizer = LibraryTokenizer(model)
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return tokenizer


class Model:
    """Random logits over a real vocabulary, wider than it by a few as published ones are."""

    def __init__(self, name):
        make, end = MODELS[name]
        self.tokenizer, self.rules = make(), TokenRules(end=frozenset({end}))
        self.size = self.tokenizer.library.get_vocab_size() + 7
        self.guides = Guides(self.tokenizer, self.size, self.rules.end)

    def answer(self, guide, seed, limit=400, **options):
        """The text of an answer, and whether it came to its end."""
        logits, tokens = np.random.default_rng(seed), []
        ruled, checked = self.guides.create(guide), self.guides.create(guide)
        structured = {"json_object": True} if guide.kind == "json" else {guide.kind: guide.text}
        options = SamplingParams(**structured, **options)
        sampler = Sampler(options, self.rules, [0], seed=seed, guide=ruled)
        while len(tokens) < limit:
            token = sampler.sample(logits.normal(0, 3, self.size).astype(np.float32)).token
            assert checked.allowed()[token]
            checked.take(token)
            if token in self.rules.end:
                return self.tokenizer.decode(tokens), True
            tokens.append(token)
        return self.tokenizer.decode(tokens), False


@pytest.fixture(scope="module")
def models():
    return {name: Model(name) for name in MODELS}


speaks = pytest.mark.parametrize("name", [name for name in MODELS if name != "dates-gru"])


def schema(value):
    return Structure(kind="json_schema", text=json.dumps(value))


def regex(text):
    return Structure(kind="regex", text=text)


@speaks
def test_every_finished_answer_is_of_the_schema(models, name):
    ended = 0
    for seed in range(30):
        text, is_whole = models[name].answer(schema(SCHEMA), seed, temperature=float(seed % 2))
        ended += is_whole
        if is_whole:
            value = json.loads(text)
            assert set(value) - {"tags"} == {"name", "age"}
            assert len(value["name"]) <= 12 and type(value["age"]) is int and 0 <= value["age"] <= 150
            assert set(value.get("tags", [])) <= {"a", "é", "日本"} and len(value.get("tags", [])) <= 3
    assert ended > 20


@speaks
def test_every_finished_answer_of_any_json_can_be_parsed(models, name):
    answers = [models[name].answer(Structure(kind="json"), seed, limit=60, temperature=1.0) for seed in range(20)]
    values = [json.loads(text) for text, is_whole in answers if is_whole]
    assert values and all(isinstance(value, dict) for value in values)


def grammar(text):
    return Structure(kind="grammar", text=text)


LARK = 'start: GREETING " " name "!"\nGREETING: "hi" | "bye"\nname: /[a-d]{2}/'
GBNF = 'root ::= greeting " " [a-d] [a-d] "!"\ngreeting ::= "hi" | "bye"'


@speaks
@pytest.mark.parametrize("text", [LARK, GBNF], ids=["Lark", "GBNF"])
def test_every_answer_is_of_the_grammar(models, name, text):
    answers = [models[name].answer(grammar(text), seed, temperature=1.0) for seed in range(5)]
    assert all(is_whole and re.fullmatch("(hi|bye) [a-d]{2}!", text) for text, is_whole in answers)


def test_json_has_no_blanks_unless_the_schema_asks_for_them(models):
    model = models["byte-level BPE"]
    compact = {
        "type": "object",
        "properties": {"a": {"const": [1, 2]}},
        "required": ["a"],
        "additionalProperties": False,
    }
    text, is_whole = model.answer(schema(compact), 0)
    assert is_whole and text.startswith('{"a":[1,2]') and not any(blank in text for blank in " \n\r\t")
    brace, blank = (model.tokenizer.encode(text, 9)[-1] for text in ("{", " "))
    for guide, allowed in ((schema(compact), False), (schema({**compact, "x-guidance": BLANKS}), True)):
        ruled = model.guides.create(guide)
        ruled.take(brace)
        assert ruled.allowed()[blank] == allowed


EXPRESSIONS = {
    "stdlib-lm": r"(def|class) [a-z_]{1,8}\((self)?\):",
    "byte-level BPE": r"(naïve|日本語|🙂){2}[0-9]{1,3}",
    "dates-gru": r"[0-9]{4}-(0[1-9]|1[0-2])-[0-3][0-9]",
    "SentencePiece": r"[a-c]{2,4} the [0-9]+",
}


@pytest.mark.parametrize("name", EXPRESSIONS)
@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_a_regular_expression_is_matched_as_a_whole(models, name, seed):
    text, is_whole = models[name].answer(regex(EXPRESSIONS[name]), seed, temperature=1.0)
    assert is_whole and re.fullmatch(EXPRESSIONS[name], text)


def test_blanks_between_json_are_bounded(models):
    model = models["byte-level BPE"]
    ruled, encode = model.guides.create(schema({"type": "object", "x-guidance": BLANKS})), byte_level_bpe().encode
    (brace,), (blank,) = encode("{", add_special_tokens=False).ids, encode(" ", add_special_tokens=False).ids
    for token in (brace, *(blank,) * 40):
        assert ruled.allowed()[token]
        ruled.take(token)
    assert not ruled.allowed()[blank]


def test_an_answer_is_complete_when_nothing_but_an_end_can_follow(models):
    model = models["dates-gru"]
    ruled, digit = model.guides.create(regex("[0-9]{2}")), 30
    for _ in range(2):
        assert not ruled.is_complete and not ruled.allowed()[2]
        ruled.take(digit)
    assert ruled.is_complete and np.flatnonzero(ruled.allowed()).tolist() == [2]
    ruled.take(2)
    assert ruled.is_complete
    longer = model.guides.create(regex("[0-9]+"))
    longer.take(digit)
    assert not longer.is_complete and longer.allowed()[[2, digit]].all()


def test_answers_of_one_guide_do_not_share_their_state(models):
    guides = models["dates-gru"].guides
    first, second = guides.create(regex("ab")), guides.create(regex("ab"))
    first.take(4)
    assert np.flatnonzero(first.allowed()).tolist() == [5] and np.flatnonzero(second.allowed()).tolist() == [4]


def test_special_tokens_and_those_beyond_the_vocabulary_never_come(models):
    for name, special in (("stdlib-lm", [0]), ("dates-gru", [0, 1, 2, 3])):
        allowed = models[name].guides.create(regex(r"(.|\n){5}")).allowed()
        assert not allowed[special].any() and not allowed[-7:].any() and allowed.sum() > 20


def test_a_grammar_may_ask_for_a_special_token_by_its_number(models):
    guide = models["dates-gru"].guides.create(grammar('start: <[3]> "a"'))
    assert np.flatnonzero(guide.allowed()).tolist() == [3]
    guide.take(3)
    assert np.flatnonzero(guide.allowed()).tolist() == [4]


def test_the_forced_first_token_is_none_of_the_guides(models):
    model = models["dates-gru"]
    rules = TokenRules(end=frozenset({2}), first=1)
    sampler = Sampler(SamplingParams(), rules, [1], seed=0, guide=model.guides.create(regex("ab")))
    logits = np.zeros(model.size, dtype=np.float32)
    assert [sampler.sample(logits).token for _ in range(4)] == [1, 4, 5, 2]


@speaks
@pytest.mark.parametrize("count", [499, 500, 1024])
def test_an_answer_is_one_of_as_many_choices_as_may_be(models, name, count):
    choices = [f"word {number} of many" for number in range(count)]
    guide = grammar(StructureFields(guided_choice=choices).structure()["grammar"])
    answers = [models[name].answer(guide, seed, temperature=1.0) for seed in range(3)]
    assert all(is_whole and text in choices for text, is_whole in answers)


@pytest.mark.parametrize(
    "choices",
    [["a", "ab"], ["\x7f", "\x00"], ['"', "\\", "\\n", "\n"], ["", "x"], ["/a/", "%ignore"], ["\u2028", "e\u0301"]],
)
def test_an_answer_is_an_odd_choice_as_it_stands(models, choices):
    guide = grammar(StructureFields(guided_choice=choices).structure()["grammar"])
    answers = [models["byte-level BPE"].answer(guide, seed, temperature=1.0) for seed in range(12)]
    assert {text for text, is_whole in answers if is_whole} == set(choices)


@pytest.mark.parametrize(
    ("guide", "message"),
    [
        (regex("a("), "unclosed group"),
        (regex("(?=a)b"), "look-around"),
        (regex("(" * 5000 + ")" * 5000), "nested parentheses"),
        (schema({"type": "strange"}), "strange"),
        (grammar("start: other"), "other"),
        (grammar("root ::= ("), "GBNF"),
        (grammar("start: " + "(" * 5000 + '"a"' + ")" * 5000), "nested"),
        (grammar("start: <|endoftext|>"), "special token"),
        (grammar("start: <[32000]>"), "too large"),
        (grammar("start: <[99999999999999999999]>"), "too large"),
        (schema({"type": "object", "unevaluatedItems": 3}), "unevaluatedItems"),
        (Structure(kind="json_schema", text="{"), "EOF"),
        (Structure(kind="json_schema", text="[" * 100_000), "recursion"),
        (Structure(kind="json_schema", text='{"not": ' * 500 + "{}" + "}" * 500), "recursion"),
    ],
)
def test_a_guide_that_cannot_be_followed_is_refused_with_the_reason(models, guide, message):
    with pytest.raises(InputError, match=rf"expected a (JSON schema|regular expression|grammar).*(?s:.*){message}"):
        models["dates-gru"].guides.create(guide)


def test_what_the_vocabulary_cannot_say_is_refused_when_it_must_come(models):
    ruled = models["dates-gru"].guides.create(regex("aÉ"))
    ruled.take(4)
    with pytest.raises(InputError, match="lets go on"):
        ruled.allowed()


def test_a_token_that_is_not_allowed_is_refused(models):
    with pytest.raises(InputError, match="doesn't satisfy the grammar") as raised:
        models["dates-gru"].guides.create(regex("ab")).take(5)
    assert "<" not in str(raised.value)


class OtherTokenizer:
    """One that is no tokenizer.json, as Marian's."""


@pytest.mark.parametrize(
    ("tokenizer", "end"), [(OtherTokenizer(), [0]), (Tokenizer(word_piece()), [3]), (Tokenizer(byte_level_bpe()), [])]
)
def test_a_model_that_cannot_be_guided_refuses_every_guide_and_nothing_else(tokenizer, end):
    guides = Guides(tokenizer, 400, end)
    with pytest.raises(InputError, match="leave the guide out"):
        guides.create(Structure(kind="json"))


def test_without_the_library_a_guide_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "llguidance", None)
    guides = Guides(Tokenizer(byte_level_bpe()), 320, [1])
    with pytest.raises(MachineError, match="pip install llguidance"):
        guides.create(Structure(kind="json"))


STEPS, STEPS_S = 12, 0.2
"""Of the processor's time; each of these took 0.3 to 1 s, several times its compiling, which every other waited for."""
HEAVY = {
    "a long repetition": Structure(kind="regex", text="x(a{1000000})"),
    "many ways to go on": Structure(
        kind="json_schema",
        text=json.dumps(
            {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/a"}}] * 200}}}
        ),
    ),
}


@pytest.mark.planted
@pytest.mark.parametrize("guide", HEAVY.values(), ids=list(HEAVY))
def test_no_guide_holds_up_a_step_for_long(guide):
    make, end = MODELS["stdlib-lm"]
    tokenizer = make()
    guides = Guides(tokenizer, tokenizer.library.get_vocab_size(), [end])
    guides.prepare(Structure(kind="json"))  # the vocabulary is compiled once
    limit_s, began = STEPS_S, time.thread_time()
    with suppress(InputError):  # either end is good
        guides.prepare(guide)  # by another thread than the one that decodes
        limit_s = max(STEPS_S, time.thread_time() - began)  # on a slow processor
        began = time.thread_time()
        answer = guides.create(guide)
        for number in range(STEPS):
            allowed = [int(token) for token in answer.allowed().nonzero()[0] if token != end]
            by_length = sorted(allowed, key=lambda token: len(tokenizer.decode([token])))
            answer.take(by_length[-1 if number % 2 else 0])
    assert time.thread_time() - began < limit_s


def test_a_guide_stays_compiled_as_long_as_a_request_has_it(monkeypatch):
    guides = Model("dates-gru").guides
    held = [guides.prepare(regex(f"[0-9]{{{number}}}")) for number in range(1, MOST_GRAMMARS + 9)]
    monkeypatch.setattr(guides, "_compile", forbid)
    assert all(guides.known(regex(f"[0-9]{{{number}}}")) is one for number, one in enumerate(held, start=1))
    ruled, other = (guides.create(regex("[0-9]{1}")) for _ in range(2))
    ruled.take(30)
    assert ruled.is_complete and not other.is_complete
    del held
    assert guides.known(regex("[0-9]{2}")) is None, "it would be held for ever"


def test_what_no_request_has_can_be_forgotten():
    guides = Model("dates-gru").guides
    held = guides.prepare(regex("a"))
    guides.prepare(regex("b"))
    guides.forget()
    assert guides.known(regex("a")) is held and guides.known(regex("b")) is None
    assert guides.create(regex("b")).allowed().any()


def test_a_guide_that_was_refused_is_not_tried_again(monkeypatch):
    guides = Model("dates-gru").guides
    for _ in range(2):
        with pytest.raises(InputError, match="unclosed group"):
            guides.create(regex("a("))
        monkeypatch.setattr(guides, "_compile", forbid)
    assert isinstance(guides.known(regex("a(")), InputError)


def test_requests_hold_a_bounded_number_of_guides(monkeypatch):
    monkeypatch.setattr(guide_module, "MOST_GUIDES", 3)
    guides = Model("dates-gru").guides
    held = [guides.prepare(regex("a" * number)) for number in range(1, 4)]
    with pytest.raises(BusyError, match="retry later"):
        guides.prepare(regex("b"))
    assert guides.prepare(regex("a")) is held[0]


def forbid(_):
    raise AssertionError("tried and compiled again")
