from collections import Counter
from functools import partial
from typing import Any

import numpy as np
import pytest

from attendant.errors import BusyError, InputError
from attendant.sampling_params import Structure
from attendant.tokenizer import Tokenizer
from serving.engine.sampling import guide as guide_module
from serving.engine.sampling import token_guide
from serving.engine.sampling.guide import Guides
from serving.engine.sampling.guide_grammar import LIMITS, compile_guide
from serving.engine.sampling.token_guide import MendingTime, SharedGrammar, TokenGuide
from tests.conftest import ROOT
from tests.text_checkpoints import byte_level_bpe

CLASSES = Structure(kind="regex", text=r"\w+@\w+\.(de|com)")
"""Its classes are large, and two of them can follow each other: a step may be too complex for a lexer."""

SIGNS = Structure(kind="regex", text="={9}")


def new_guides():
    tokenizer = Tokenizer(byte_level_bpe())
    return Guides(tokenizer, tokenizer.library.get_vocab_size(), [1])


def step_by_step(ruled, seed):
    """None at each step; then the tokens of an answer that a model without sense would give, or the guide's refusal."""
    choose, tokens = np.random.default_rng(seed), []
    while len(tokens) < 60 and not ruled.is_complete:
        try:
            tokens.append(int(choose.choice(ruled.allowed().nonzero()[0])))
            ruled.take(tokens[-1])
        except InputError as error:
            yield str(error)
            return
        yield None
    yield tokens


def walk(ruled, seed):
    return next(ended for ended in step_by_step(ruled, seed) if ended is not None)


def test_words_in_any_script_are_not_too_complex():
    guides = new_guides()
    assert all(isinstance(walk(guides.create(CLASSES), seed), list) for seed in range(100))


@pytest.mark.planted
@pytest.mark.parametrize("is_cheap", [True, False])
def test_an_answer_that_is_too_complex_refuses_no_other_of_its_guide(monkeypatch, is_cheap):
    monkeypatch.setitem(LIMITS, "step_lexer_fuel", 20_000)
    monkeypatch.setattr(token_guide, "MOST_BETWEEN_STEPS_S", 10.0 if is_cheap else -1.0)
    alone = [walk(new_guides().create(CLASSES), seed) for seed in range(12)]
    refused = [seed for seed, answer in enumerate(alone) if isinstance(answer, str)]
    assert 0 < len(refused) < len(alone) / 2
    guides = new_guides()
    begun = guides.create(CLASSES)
    begun.take(36)
    for seed, expected in enumerate(alone):
        guides.prepare(CLASSES)  # by the thread that reads the request
        answer = walk(guides.create(CLASSES), seed)
        assert answer == expected or seed in refused  # what others have built is not built again
    if is_cheap:
        assert begun.allowed().any(), "an answer that had begun was refused by another's"


DEEP = Structure(kind="regex", text=r"\w*[\p{L}\p{N}]{1,80}[^\x00-\x7f]{2,20}\.(de|com)")
"""Of which a step of every twelfth answer is too complex."""


def test_answers_that_are_decoded_in_turn_go_on_where_one_of_them_is_too_complex(monkeypatch):
    for name in ("MOST_BETWEEN_STEPS_S", "MOST_REPEATING_S", "MOST_MENDING_S"):
        monkeypatch.setattr(token_guide, name, 100.0)  # whatever else the machine does
    tokenizer = Tokenizer.load(ROOT / "models" / "pretrained" / "stdlib-lm" / "tokenizer.json")
    guides, count = Guides(tokenizer, tokenizer.library.get_vocab_size(), [0]), 40
    alone = []
    for seed in range(count):
        grammar = SharedGrammar(
            partial(compile_guide, guides._vocabulary, DEEP), MendingTime()
        )  # not tried out as often
        alone.append(walk(TokenGuide(grammar, guides._vocabulary_size), seed))
    assert any(isinstance(answer, str) for answer in alone)
    together = [step_by_step(guides.create(DEEP), seed) for seed in range(count)]
    answers = dict[int, list[int] | str]()
    while len(answers) < count:
        for seed, steps in enumerate(together):
            if seed not in answers and (ended := next(steps)) is not None:
                answers[seed] = ended
    for seed, answer in enumerate(alone):
        assert isinstance(answer, str) or answers[seed] == answer


def spoil(guides):
    """Answers until one is too complex."""
    for seed in range(40):
        if isinstance(walk(guides.create(CLASSES), seed), str):
            return
    raise AssertionError("none was")


def test_mending_takes_a_bounded_part_of_the_time(monkeypatch):
    now_s = [100.0]
    monkeypatch.setattr(token_guide.time, "monotonic", lambda: now_s[0])
    mending = MendingTime()
    mending.spend(0.9)
    assert mending.is_left
    mending.spend(0.6)
    assert not mending.is_left
    now_s[0] += 6.0
    assert mending.is_left
    mending.spend(0.2)
    assert not mending.is_left
    now_s[0] += 1e6
    assert mending.is_left
    mending.spend(1.1)
    assert not mending.is_left, "it saves up no more than a second"


def test_a_guide_that_is_spoiled_again_and_again_is_refused_for_a_while(monkeypatch):
    monkeypatch.setitem(LIMITS, "step_lexer_fuel", 20_000)
    monkeypatch.setattr(token_guide, "MOST_MENDING_S", 1e-9)
    monkeypatch.setattr(token_guide, "MENDING_SHARE", 0.0)
    guides = new_guides()
    held = guides.prepare(CLASSES)
    assert guides.known(CLASSES) is held
    spoil(guides)
    assert guides.known(CLASSES) is None, "the thread that reads requests would compile it"
    guides.prepare(CLASSES)
    assert guides.known(CLASSES) is held
    spoil(guides)
    with pytest.raises(BusyError, match="again and again"):
        guides.prepare(CLASSES)


class CountedTime:
    """A processor's time that grows with each look at it."""

    def __init__(self, each_s):
        self._each_s, self._now_s = each_s, 0.0

    def __call__(self):
        self._now_s += self._each_s
        return self._now_s


def test_an_answer_that_takes_long_to_be_taken_up_is_refused(monkeypatch):
    def goes_on(each_s):
        guides = new_guides()
        guides.prepare(CLASSES)
        begun = guides.create(CLASSES)
        for _ in range(50):
            begun.take(36)
        spoil(guides)
        monkeypatch.setattr(token_guide.time, "thread_time", CountedTime(each_s))
        monkeypatch.setattr(token_guide, "MOST_BETWEEN_STEPS_S", 10.0)
        return begun.allowed().any()

    monkeypatch.setitem(LIMITS, "step_lexer_fuel", 20_000)
    with monkeypatch.context() as patched:
        monkeypatch = patched
        assert goes_on(1e-6)
    with pytest.raises(InputError, match="one of 50 tokens whose guide is too complex"):
        goes_on(0.01)


def test_newcomers_get_another_lexer_where_one_has_grown(monkeypatch):
    monkeypatch.setattr(token_guide, "MOST_TOKENS", 100)
    guides, steps = new_guides(), Counter[Any]()  # keeps each matcher: the address of one that is gone is another's
    running = guides.create(CLASSES)
    for seed in range(12):
        guides.prepare(CLASSES)
        ruled = guides.create(CLASSES)
        steps[ruled._origin] += len(walk(ruled, seed))
        running.take(36)
    assert len(steps) > 2 and max(steps.values()) <= 100 + 60
    held = guides.prepare(CLASSES)
    while not held.is_worn:
        walk(guides.create(CLASSES), 0)
    assert guides.known(CLASSES) is None, "the thread that reads requests would compile it"
    monkeypatch.setattr(token_guide.MendingTime, "is_left", False)
    assert guides.prepare(CLASSES) is held, "to be large is no reason to refuse"


def test_a_costly_guide_that_was_let_go_of_is_compiled_anew_where_nobody_waits(monkeypatch):
    monkeypatch.setattr(token_guide, "MOST_BETWEEN_STEPS_S", -1.0)
    monkeypatch.setattr(guide_module, "MOST_BYTES", -1)
    guides = new_guides()
    held, answer = guides.prepare(SIGNS), guides.create(SIGNS)
    guides.prepare(CLASSES)
    assert guides.known(SIGNS) is None, "the thread that reads requests would compile it"
    with pytest.raises(BusyError, match="retry later"):
        guides.create(SIGNS)
    answer.take(30)
    assert guides.prepare(SIGNS) is held
    guides.create(SIGNS).take(30)
