"""What a server answers that is no answer: 502, and never the gateway's own failure, and JSON whatever it holds."""

import asyncio
import base64
import io
import json

import numpy as np
import pytest
from PIL import Image

from tests.serving.gateway.fake_triton import (
    GREY,
    FakeTriton,
    config_of,
    delta,
    floats,
    gateway_of,
    integers,
    raw,
    texts,
)

PREPROCESSING = json.dumps({**GREY, "size": [8, 8]})
PIXELS, LOGITS = ("pixels", (1, 8, 8)), ("logits", (10,))
TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"
CONFIGS = [
    config_of("writer", "generate", chat_template=TEMPLATE, max_length="64"),
    config_of("translator", "translate", outputs=[("alignment", (1,))], max_length="64"),
    config_of("captioner", "caption", [PIXELS], [("alignment", (1,))], preprocessing=PREPROCESSING, max_length="64"),
    config_of(
        "vit", "classify", [PIXELS], [LOGITS, ("attention", (1,)), ("rollout", (2, 2))], 0, preprocessing=PREPROCESSING
    ),
    config_of("embedder", "embed", outputs=[("hidden", (4,)), ("token_mask", (1,)), ("pooled", (4,))]),
]
_FILE = io.BytesIO()
Image.new("L", (8, 8), 128).save(_FILE, "PNG")
IMAGE = base64.b64encode(_FILE.getvalue()).decode()
NAN = float("nan")
EXPLAINED = [
    ("/v1/explain", {"model": "translator", "input": "a"}),
    ("/v1/explain", {"model": "translator", "input": "a", "format": "png"}),
    ("/v1/explain", {"model": "captioner", "image": IMAGE}),
]
GENERATED = [
    ("/v1/completions", {"model": "writer", "prompt": "a", "logprobs": 1}),
    (
        "/v1/chat/completions",
        {"model": "writer", "messages": [{"role": "user", "content": "a"}], "logprobs": True, "top_logprobs": 1},
    ),
]


def ask_each(server, questions):
    async def ask():
        async with gateway_of(server) as client:
            return [await client.post(path, json=body) for path, body in questions]

    return asyncio.run(ask())


LOGPROB, TOPS, TOP_LOGPROBS = floats([[-1]]), integers([[[1, 2]]]), floats([[[-1, -2]]])
ODD_DELTAS = {
    "log-probabilities of another length": [delta(output_log_probs=floats([[-1, -1, -1]]))],
    "log-probabilities of texts": [delta(output_log_probs=texts("x"))],
    "less than no tokens": [delta(num_input_tokens=integers([[-1000]]))],
    "a number of tokens that is a text": [delta(num_input_tokens=texts("x"))],
    "a candidate that is a text": [delta(sequence_index=texts("x"))],
    "a candidate below none": [delta(sequence_index=integers([[-7]]))],
    "tokens that are texts": [{**delta(), "output_ids": texts("a")}],
    "nested tokens": [{**delta(), "output_ids": integers([[[1], [2]]])}],
    "a prompt longer than its tokens": [delta(num_prompt_tokens=integers([[2]]))],
    "the most probable in one delta alone": [
        delta(finish_reason="", output_log_probs=LOGPROB, top_ids=TOPS, top_log_probs=TOP_LOGPROBS),
        delta(output_log_probs=LOGPROB),
    ],
    "log-probabilities in the last delta alone": [delta(finish_reason=""), delta(output_log_probs=LOGPROB)],
    "bytes in the first delta alone": [
        delta(finish_reason="", output_log_probs=LOGPROB, token_bytes=raw([[b"a"]])),
        delta(output_log_probs=LOGPROB),
    ],
    "bytes of fewer than the most probable": [
        delta(
            output_log_probs=LOGPROB,
            top_ids=TOPS,
            top_log_probs=TOP_LOGPROBS,
            token_bytes=raw([[b"a"]]),
            top_token_bytes=raw([[[b"a"]]]),
        )
    ],
}


@pytest.mark.planted
@pytest.mark.parametrize("deltas", ODD_DELTAS.values(), ids=ODD_DELTAS)
def test_odd_parts_of_an_answer_are_the_servers_failure(deltas):
    for answer in ask_each(FakeTriton(*CONFIGS, deltas=deltas), GENERATED):
        assert answer.status_code == 502, answer.text


ONE_ANSWER = [
    ("/v1/responses", {"model": "writer", "input": "a"}),
    ("/tokenize", {"model": "writer", "prompt": "a"}),
    ("/detokenize", {"model": "writer", "tokens": [1]}),
]


@pytest.mark.planted
@pytest.mark.parametrize("deltas", [[], [delta(), delta(sequence_index=integers([[1]]))]], ids=["none", "two"])
def test_so_are_none_and_two_answers_where_one_was_asked_for(deltas):
    for answer in ask_each(FakeTriton(*CONFIGS, deltas=deltas), ONE_ANSWER):
        assert answer.status_code == 502, answer.text


def test_a_template_that_fails_on_a_chat_takes_its_model_from_nobody():
    template = "{% for m in messages %}{{ m.nothing.at.all }}{% endfor %}"
    server = FakeTriton(config_of("chatty", "generate", chat_template=template, max_length="64"), deltas=[delta()])
    chat = ("/v1/chat/completions", {"model": "chatty", "messages": [{"role": "user", "content": "a"}]})
    tokenize = ("/tokenize", {"model": "chatty", "messages": [{"role": "user", "content": "a"}]})
    *failed, last = ask_each(server, [chat, tokenize] * 4 + [("/v1/completions", {"model": "chatty", "prompt": "a"})])
    for answer in failed:
        assert (answer.status_code, answer.json()["error"]["code"]) == (502, "template_failed")
    assert last.status_code == 200, last.text


@pytest.mark.parametrize("arguments", ["5", "[1]", "null", "{"])
def test_arguments_of_a_call_that_are_no_object_are_refused(arguments):
    calls = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}]
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": calls}]
    (answer,) = ask_each(
        FakeTriton(*CONFIGS, deltas=[delta()]), [("/v1/chat/completions", {"model": "writer", "messages": messages})]
    )
    assert answer.status_code == 400 and "an object of JSON" in answer.json()["error"]["message"]


ODD_ALIGNMENTS = {
    "none": [],
    "NaN": [delta(alignment=floats([[[NAN, 1]]]), token_texts=texts("a"), source_texts=texts("x", "y"))],
    "texts": [delta(alignment=texts("x"), token_texts=texts("a"), source_texts=texts("x"))],
    "of other tokens": [delta(alignment=floats([[[1, 0]]]), token_texts=texts("a", "b"), source_texts=texts("x", "y"))],
    "of a part of them": [
        delta(alignment=floats([[[1, 0]]]), token_texts=texts("a"), source_texts=texts("x", "y"), finish_reason=""),
        delta(alignment=floats([[[1, 0, 0]]]), token_texts=texts("a")),
    ],
    "to no source": [delta(alignment=floats(np.zeros((1, 1, 0))), token_texts=texts("a"), source_texts=texts("x"))],
}


@pytest.mark.planted
@pytest.mark.parametrize("deltas", ODD_ALIGNMENTS.values(), ids=ODD_ALIGNMENTS)
def test_so_are_odd_alignments(deltas):
    for answer in ask_each(FakeTriton(*CONFIGS, deltas=deltas), EXPLAINED):
        assert answer.status_code == 502, answer.text


@pytest.mark.planted
def test_events_are_json_whatever_numbers_they_hold():
    server = FakeTriton(*CONFIGS, deltas=[delta(output_log_probs=floats([[NAN]]), cum_log_probs=floats([[-np.inf]]))])
    streams = [(path, {**body, "stream": True}) for path, body in GENERATED]
    for answer in ask_each(
        server, [*streams, ("/v1/translate", {"model": "translator", "input": "a", "stream": True})]
    ):
        events = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: {")]
        assert answer.status_code == 200 and events
        for event in events:
            assert "NaN" not in event and "Infinity" not in event
            assert "error" not in json.loads(event)


LOGITS_OF_10 = np.arange(10)[None]
ODD_OUTPUTS = {
    "NaN": {"logits": floats(np.full((1, 10), NAN))},
    "infinite": {"logits": floats(np.full((1, 10), np.inf))},
    "nothing": {},
}
ODD_MAPS = {
    "missing": {},
    "of other shapes": {"attention": floats(np.zeros((1, 2, 2, 3, 0))), "rollout": floats(np.zeros((1, 3)))},
    "NaN": {"attention": floats(np.full((1, 2, 2, 5, 5), NAN)), "rollout": floats(np.full((1, 2, 2), NAN))},
    "texts": {"attention": texts("x"), "rollout": texts("x")},
    "scalars": {"attention": floats(np.zeros(1)), "rollout": floats(np.zeros(1))},
}
SHOWN = [
    ("/v1/explain", {"model": "vit", "image": IMAGE, "kind": kind, "format": form})
    for kind in ("rollout", "attention")
    for form in ("json", "png")
]


@pytest.mark.planted
@pytest.mark.parametrize("outputs", ODD_OUTPUTS.values(), ids=ODD_OUTPUTS)
def test_so_are_odd_logits(outputs):
    for answer in ask_each(
        FakeTriton(*CONFIGS, answer=outputs), [("/v1/classify", {"model": "vit", "image": IMAGE}), *SHOWN]
    ):
        assert answer.status_code == 502, answer.text


@pytest.mark.planted
@pytest.mark.parametrize("outputs", ODD_MAPS.values(), ids=ODD_MAPS)
def test_so_are_odd_maps(outputs):
    for answer in ask_each(FakeTriton(*CONFIGS, answer={"logits": floats(LOGITS_OF_10), **outputs}), SHOWN):
        assert answer.status_code == 502, answer.text


ODD_VECTORS = {
    "NaN": {"hidden": floats(np.full((1, 2, 4), NAN)), "token_mask": integers([[1, 1]])},
    "of no token": {"hidden": floats(np.zeros((1, 2, 4))), "token_mask": integers([[0, 0]])},
    "of less than none": {"hidden": floats(np.zeros((1, 2, 4))), "token_mask": integers([[-100, 1]])},
    "of more texts": {"hidden": floats(np.zeros((3, 2, 4))), "token_mask": integers(np.ones((3, 2)))},
}


@pytest.mark.planted
@pytest.mark.parametrize("outputs", ODD_VECTORS.values(), ids=ODD_VECTORS)
def test_so_are_odd_vectors(outputs):
    (answer,) = ask_each(
        FakeTriton(*CONFIGS, answer=outputs), [("/v1/embeddings", {"model": "embedder", "input": "a"})]
    )
    assert answer.status_code == 502, answer.text
