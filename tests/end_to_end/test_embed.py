import asyncio
import json

import numpy as np
import pytest
from tokenizers import Tokenizer

from attendant.errors import InputError
from attendant.manifest import Manifest
from clients.embed import Embedder
from models.checkpoints.resolve import checkpoint_named
from tests.conftest import TEXT_ENCODER
from tests.end_to_end.asking import ask, gathered, python_m
from tests.text_checkpoints import LONGEST, OTHER_PROMPT, PROMPT, eager_embedding

TEXTS = [PROMPT, "fish", OTHER_PROMPT, "attention is all you need"]
POOLINGS = {
    "pooled": lambda hidden, pooled: pooled,
    "mean": lambda hidden, pooled: hidden.mean(axis=0),
    "first": lambda hidden, pooled: hidden[0],
}


@pytest.fixture(scope="module")
def eager(text_encoder):
    """From a text to the eager model's hidden vectors and its pooled one, of this text alone."""
    model = checkpoint_named(Manifest.read(text_encoder).source).model
    tokenizer = Tokenizer.from_file(str(text_encoder / "tokenizer.json"))
    return lambda text: eager_embedding(model, tokenizer.encode(text).ids)


async def vectors(client, texts, pooling="mean"):
    return await (await Embedder.find(client)).embed(texts, pooling)


def request(*texts):
    return {"text_input": np.array([[text.encode()] for text in texts], dtype=object)}


@pytest.mark.parametrize("pooling", POOLINGS)
def test_served_vectors_are_the_eager_models(server, eager, pooling):
    served = ask(server, lambda client: vectors(client, TEXTS, pooling))
    expected = [POOLINGS[pooling](*eager(text)) for text in TEXTS]
    np.testing.assert_allclose(served, expected, rtol=0, atol=5e-6)


def test_texts_that_come_together_are_batched_and_each_request_is_cut_to_its_own_length(server, eager):
    async def together(client):
        return await asyncio.gather(*(client.infer(TEXT_ENCODER, request(text)) for text in TEXTS * 16))

    answers = ask(server, together)
    for text, answer in zip(TEXTS * 16, answers, strict=True):
        hidden, pooled = eager(text)
        assert answer["token_mask"].tolist() == [[True] * len(hidden)]
        np.testing.assert_allclose(answer["hidden"][0], hidden, rtol=0, atol=5e-6)
        np.testing.assert_allclose(answer["pooled"][0], pooled, rtol=0, atol=5e-6)
    assert gathered(server, TEXT_ENCODER, lambda: ask(server, together), 64)


def test_texts_of_one_request_share_its_length_and_the_mask_says_where_each_ends(server, eager):
    answer = ask(server, lambda client: client.infer(TEXT_ENCODER, request(*TEXTS)))
    lengths = [len(eager(text)[0]) for text in TEXTS]
    assert answer["hidden"].shape == (len(TEXTS), max(lengths), 16)
    assert answer["token_mask"].sum(axis=1).tolist() == lengths


@pytest.mark.parametrize("wanted", [["pooled"], ["hidden", "token_mask"], ["hidden", "pooled", "token_mask"]])
def test_only_the_outputs_that_are_asked_for_come(server, wanted):
    answer = ask(server, lambda client: client.infer(TEXT_ENCODER, request(PROMPT), wanted))
    assert sorted(answer) == wanted


@pytest.mark.parametrize(
    ("bad", "says"), [("", "at least one token"), ("fish " * LONGEST, f"at most {LONGEST} tokens")]
)
def test_a_bad_text_is_refused_with_the_reason_and_leaves_the_others_alone(server, eager, bad, says):
    async def mixed(client):
        embedder = await Embedder.find(client)
        asked = (embedder.embed([text], "pooled") for text in [PROMPT, bad, "fish"] * 4)
        return await asyncio.gather(*asked, return_exceptions=True)

    answers = ask(server, mixed)
    for first, error, last in zip(answers[::3], answers[1::3], answers[2::3], strict=True):
        np.testing.assert_allclose(first[0], eager(PROMPT)[1], rtol=0, atol=5e-6)
        np.testing.assert_allclose(last[0], eager("fish")[1], rtol=0, atol=5e-6)
        assert isinstance(error, InputError) and says in str(error)


def test_who_wants_it_explained_is_told_that_it_cannot_be_and_the_others_are_answered(server, eager):
    async def mixed(client):
        asked = (
            client.infer(TEXT_ENCODER, request(PROMPT), ["pooled"], {"explain": one}) for one in (False, True, 1) * 4
        )
        return await asyncio.gather(*asked, return_exceptions=True)

    answers = ask(server, mixed)
    for plain, explained, wrong in zip(answers[::3], answers[1::3], answers[2::3], strict=True):
        np.testing.assert_allclose(plain["pooled"][0], eager(PROMPT)[1], rtol=0, atol=5e-6)
        assert isinstance(explained, InputError) and "leave the parameter explain out" in str(explained)
        assert isinstance(wrong, InputError) and "send a boolean" in str(wrong)


def test_more_texts_than_a_request_takes_are_sent_in_several(server):
    texts = [f"{word} fish" for word in (TEXTS * 20)]
    served = ask(server, lambda client: vectors(client, texts))
    assert served.shape == (80, 16)
    np.testing.assert_allclose(served[76:], served[:4], rtol=0, atol=5e-6)


def test_no_text_at_all_is_refused(server):
    with pytest.raises(InputError, match="a text"):
        ask(server, lambda client: vectors(client, []))


def test_the_command_prints_a_table_and_how_alike_the_texts_are(server, eager):
    told = python_m("clients", "embed", PROMPT, "fish", "--server", server.grpc)
    assert told.returncode == 0, told.stderr
    mean = [eager(text)[0].mean(axis=0) for text in (PROMPT, "fish")]
    norms = [float(np.linalg.norm(vector)) for vector in mean]
    assert f"{norms[0]:.3f}" in told.stdout and f"{norms[1]:.3f}" in told.stdout
    assert PROMPT in told.stdout
    assert f"{float(mean[0] @ mean[1]) / norms[0] / norms[1]:.3f}" in told.stdout.split("cosine similarity")[1]


def test_the_command_prints_one_text_without_similarities(server):
    told = python_m("clients", "embed", "--server", server.grpc, text="fish\n")
    assert told.returncode == 0, told.stderr
    assert "cosine" not in told.stdout


def test_the_command_prints_json_for_scripts(server, eager):
    words = ("--pooling", "pooled", "--json", "--server", server.grpc)
    told = python_m("clients", "embed", *words, text=f"{PROMPT}\nfish\n")
    values = [json.loads(line) for line in told.stdout.splitlines()]
    assert [value["text"] for value in values] == [PROMPT, "fish"]
    np.testing.assert_allclose(values[1]["vector"], eager("fish")[1], rtol=0, atol=5e-6)


def test_an_empty_text_is_one_line_and_status_2(server):
    refused = python_m("clients", "embed", "", "--server", server.grpc)
    assert refused.returncode == 2, refused.stderr
    assert refused.stderr.count("\n") == 1
    assert "at least one token" in refused.stderr
