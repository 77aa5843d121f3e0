import numpy as np
import pytest

from attendant.errors import InputError
from attendant.sampling_params import Structure
from attendant.tokenizer import Tokenizer
from serving.engine.sampling import token_guide
from serving.engine.sampling.guide import Guides
from serving.engine.sampling.guide_grammar import LIMITS
from tests.text_checkpoints import byte_level_bpe

CLASSES = Structure(kind="regex", text=r"\w+@\w+\.(de|com)")
"""Its classes are large, and two of them can follow each other: a step may be too complex for a lexer."""


def new_guides():
    tokenizer = Tokenizer(byte_level_bpe())
    return Guides(tokenizer, tokenizer.library.get_vocab_size(), [1])


def walk(ruled, seed):
    """The tokens of an answer that a model without sense would give, or the guide's refusal."""
    choose, tokens = np.random.default_rng(seed), []
    while len(tokens) < 60 and not ruled.is_complete:
        try:
            tokens.append(int(choose.choice(ruled.allowed().nonzero()[0])))
            ruled.take(tokens[-1])
        except InputError as error:
            return str(error)
    return tokens


def test_words_in_any_script_are_not_too_complex():
    guides = new_guides()
    assert all(isinstance(walk(guides.create(CLASSES), seed), list) for seed in range(100))


@pytest.mark.planted
@pytest.mark.parametrize("is_cheap", [True, False])
def test_an_answer_that_is_too_complex_refuses_no_other_of_its_guide(monkeypatch, is_cheap):
    monkeypatch.setitem(LIMITS, "step_lexer_fuel", 20_000)
    if not is_cheap:
        monkeypatch.setattr(token_guide, "MOST_BETWEEN_STEPS_S", -1.0)
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
