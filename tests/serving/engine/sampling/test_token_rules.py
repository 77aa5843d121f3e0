import numpy as np

from serving.engine.sampling.token_rules import TokenRules


def test_the_rules_are_read_from_the_details_of_every_family():
    assert TokenRules.of({}) == TokenRules()
    assert TokenRules.of({"end_token": 0}).end == {0}
    details = {"end_tokens": [3, 4], "end_token": 5, "forced_start_token": 0, "suppressed_tokens": [1]}
    assert TokenRules.of(details) == TokenRules(end=frozenset({3, 4, 5}), first=0, never=(1,))


def test_the_most_probable_token_is_chosen_unless_it_is_suppressed():
    logits = np.array([0.1, 3.0, 2.0, -1.0], dtype=np.float32)
    assert TokenRules().sample(logits, 0) == 1
    assert TokenRules(never=(1,)).sample(logits, 0) == 2
    assert logits.tolist() == np.float32([0.1, 3.0, 2.0, -1.0]).tolist(), "and the scores are not touched"


def test_a_forced_token_comes_first_and_only_there():
    logits = np.array([0.0, 1.0], dtype=np.float32)
    rules = TokenRules(first=0)
    assert [rules.sample(logits, count) for count in range(3)] == [0, 1, 1]
