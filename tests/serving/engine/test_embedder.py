from itertools import combinations

import numpy as np
import pytest

from attendant.errors import InputError
from attendant.manifest import Manifest
from attendant.tokenizer import SpecialText, Tokenizer
from models.checkpoints.resolve import checkpoint_named
from serving.engine.embedder import MOST_TOKENS, RUN_COST_TOKENS, TextEmbedder, pad_texts, runs_of_least_work
from serving.runtime.create_runners import create_runners
from tests.models.agreement import assert_rounded
from tests.text_checkpoints import LONGEST, OTHER_PROMPT, PROMPT, eager_embedding

TEXTS = [PROMPT, "fish", OTHER_PROMPT, "attention is all you need"]


@pytest.fixture(scope="module")
def embedder(text_encoder):
    return TextEmbedder(text_encoder, Manifest.read(text_encoder))


@pytest.fixture(scope="module")
def eager(text_encoder):
    """Hidden and pooled vectors of a text, each in float32 and in float64."""
    rounded, exact = (checkpoint_named(Manifest.read(text_encoder).source).model for _ in range(2))
    models = rounded, exact.double()
    tokenizer = Tokenizer.load(text_encoder / "tokenizer.json")
    return lambda text: zip(*(eager_embedding(one, tokenizer.encode(text, LONGEST)) for one in models), strict=True)


def test_each_text_in_a_padded_batch_is_embedded_as_the_eager_model_embeds_it_alone(embedder, eager):
    (answer,) = embedder.embed([TEXTS])
    assert_embedded(answer, TEXTS, eager)


def assert_embedded(answer, texts, eager):
    for row, text in enumerate(texts):
        hidden, pooled = eager(text)
        length = len(hidden[0])
        assert_rounded(answer.vectors["pooled"][row], *pooled)
        assert_rounded(answer.vectors["hidden"][row, :length], *hidden)
        assert answer.token_mask[row].tolist() == [True] * length + [False] * (
            answer.vectors["hidden"].shape[1] - length
        )


def test_requests_are_answered_as_if_each_had_come_alone_and_cut_to_their_own_length(embedder, eager):
    requests = [TEXTS[:1], TEXTS[1:3], TEXTS[3:]]
    together = embedder.embed(requests)
    for request, answer in zip(requests, together, strict=True):
        assert_embedded(answer, request, eager)
        assert_embedded(*embedder.embed([request]), request, eager)
    lengths = [answer.vectors["hidden"].shape[1] for answer in together]
    assert len(set(lengths)) > 1 and lengths == [answer.token_mask.sum(1).max() for answer in together]


@pytest.mark.planted
def test_without_its_mask_padding_would_change_a_vector(embedder, text_encoder):
    runner = create_runners(text_encoder, Manifest.read(text_encoder))["model"]
    tokens = Tokenizer.load(text_encoder / "tokenizer.json").encode("fish", LONGEST)
    token_ids, mask = pad_texts([tokens, [*tokens, *tokens]], pad=0)
    feeds = {"token_ids": token_ids, "mask": np.ones_like(mask), "token_types": np.zeros_like(token_ids)}
    unmasked = runner.run(feeds)["pooled"].numpy()[0]
    assert np.abs(unmasked - embedder.embed([["fish"]])[0].vectors["pooled"][0]).max() > 1e-3


def test_texts_of_other_lengths_run_apart_and_are_embedded_as_alone(embedder, eager, monkeypatch):
    monkeypatch.setattr("serving.engine.embedder.RUN_COST_TOKENS", 1)
    shapes, graph = [], embedder._graph

    def recorded(feeds, needed):
        shapes.append(feeds["mask"].shape)
        return graph(feeds, needed)

    monkeypatch.setattr(embedder, "_graph", recorded)
    texts = ["fish", "fish " * 20, "the cat", "the cat ate " * 6, "a house", "fish"]
    first, second = embedder.embed([texts[:2], texts[2:]])
    assert len(shapes) > 1 and sum(rows for rows, _ in shapes) == len(texts)
    assert sum(rows * length for rows, length in shapes) < first.token_mask.sum() + second.token_mask.sum() + len(texts)
    assert_embedded(first, texts[:2], eager)
    assert_embedded(second, texts[2:], eager)


def test_runs_cost_as_little_as_any_cut_of_texts_in_order_of_length():
    rng = np.random.default_rng(0)
    for _ in range(20):
        lengths = rng.integers(1, 400, rng.integers(1, 9))
        ordered = np.sort(lengths)
        places = range(1, len(lengths))
        cuts = (cut for number in range(len(lengths)) for cut in combinations(places, number))
        least = min(cost(np.split(ordered, cut)) for cut in cuts)
        runs = runs_of_least_work(lengths)
        assert cost([lengths[rows] for rows in runs]) == least
        assert sorted(np.concatenate(runs)) == list(range(len(lengths)))


def cost(runs):
    return sum(len(run) * max(run) + RUN_COST_TOKENS for run in runs)


def test_short_texts_of_a_batch_are_one_run():
    (rows,) = runs_of_least_work(np.array([9, 3, 12, 5]))
    assert rows.tolist() == [0, 1, 2, 3]


def test_a_run_has_a_bounded_number_of_tokens_and_a_longer_text_its_own():
    runs = runs_of_least_work(np.full(32, MOST_TOKENS // 4))
    assert [len(rows) for rows in runs] == [4] * 8
    assert [rows.tolist() for rows in runs_of_least_work(np.array([2 * MOST_TOKENS, 2]))] == [[1], [0]]


def test_another_text_gives_another_vector(embedder):
    (answer,) = embedder.embed([["the cat ate the dog", "the dog ate the cat"]])
    assert np.abs(answer.vectors["pooled"][0] - answer.vectors["pooled"][1]).max() > 0.01


@pytest.mark.parametrize(
    ("bad", "says"),
    [("", "at least one token"), (" \n", "at least one token"), ("fish " * LONGEST, f"at most {LONGEST} tokens")],
)
def test_a_bad_text_earns_its_own_request_an_error(embedder, eager, bad, says):
    first, error, last = embedder.embed([[PROMPT], ["fish", bad], ["fish"]])
    assert isinstance(error, InputError)
    with pytest.raises(InputError, match=says):
        raise error
    assert_embedded(first, [PROMPT], eager)
    assert last.vectors["pooled"].shape == (1, 16)


def test_special_tokens_are_read_where_the_client_says_so(embedder):
    plain, special = embedder.embed([["the [SEP] cat"], [SpecialText("the [SEP] cat")]])
    assert plain.vectors["hidden"].shape[1] > special.vectors["hidden"].shape[1] == 5


def test_the_longest_text_that_fits_is_embedded(embedder):
    (answer,) = embedder.embed([["fish " * (LONGEST - 2)]])
    assert answer.vectors["hidden"].shape[1] == LONGEST


def test_nothing_but_bad_texts_runs_nothing(embedder):
    assert all(isinstance(answer, InputError) for answer in embedder.embed([[""], [""]]))


def test_padding_fills_up_at_the_end():
    token_ids, mask = pad_texts([[5, 6, 7], [8]], pad=3)
    assert token_ids.tolist() == [[5, 6, 7], [8, 3, 3]]
    assert mask.tolist() == [[True] * 3, [True, False, False]]


def test_vectors_that_nobody_wants_are_not_fetched(embedder, monkeypatch):
    asked, graph = [], embedder._graph
    monkeypatch.setattr(embedder, "_graph", lambda feeds, wanted: asked.append(wanted) or graph(feeds, wanted))
    (answer,) = embedder.embed([["fish"]], {"pooled", "token_mask"})
    assert asked == [["pooled"]] and answer.vectors.keys() == {"pooled"} and answer.token_mask.shape[0] == 1


def test_tokens_alone_need_no_run(embedder, monkeypatch):
    monkeypatch.setattr(embedder, "_graph", lambda *_: pytest.fail("run"))
    (answer,) = embedder.embed([["fish", "the cat"]], {"token_ids"})
    assert answer.token_ids.shape == answer.token_mask.shape and answer.token_ids[0, 0] == 2 and not answer.vectors


def test_more_texts_than_the_graph_takes_are_refused_and_touch_no_other(embedder):
    many, one = embedder.embed([["a house"] * 33, ["a house"]])
    assert isinstance(many, InputError) and "1 to 32 texts; found 33" in str(many)
    assert not isinstance(one, InputError)
