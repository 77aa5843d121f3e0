"""The attention of a language model as the gateway says it: rows that grow by one, and what stands at their columns."""

import json

import pytest

from tests.serving.gateway.fake_triton import FakeTriton, config_of, delta, floats, texts
from tests.serving.gateway.routes.test_odd_answers import ask_each

DELTAS = [
    delta(
        "c", finish_reason="", alignment=floats([[[0.25, 0.75]]]), token_texts=texts("c"), source_texts=texts("a", "b")
    ),
    delta("d", finish_reason="", alignment=floats([[[0.5, 0.25, 0.25]]]), token_texts=texts("d")),
    delta("e", alignment=floats([[[0, 0, 0, 1]]]), token_texts=texts("e")),
]
COMPLETION = {"model": "writer", "prompt": "ab", "max_tokens": 3, "explain": True}
EXPLANATION = {"model": "writer", "input": "ab"}


def server(deltas, **parameters):
    parameters = {"max_length": "64", **parameters}
    return FakeTriton(config_of("writer", "generate", outputs=[("alignment", (1,))], **parameters), deltas=deltas)


def test_an_explanation_and_a_completion_say_what_each_token_read():
    questions = [
        ("/v1/explain", EXPLANATION),
        ("/v1/completions", COMPLETION),
        ("/v1/explain", EXPLANATION | {"format": "png"}),
    ]
    explained, completed, drawn = ask_each(server(DELTAS), questions)
    rows = [[0.25, 0.75, 0, 0], [0.5, 0.25, 0.25, 0], [0, 0, 0, 1]]
    told = {"tokens": ["c", "d", "e"], "source": ["a", "b"], "alignment": rows}
    assert explained.json() == {"model": "writer", "kind": "alignment", "answer": "cde", **told}
    (choice,) = completed.json()["choices"]
    assert {name: choice[name] for name in told} == told
    assert drawn.headers["content-type"] == "image/png"


def test_events_have_the_rows_as_they_come():
    (answer,) = ask_each(server(DELTAS), [("/v1/completions", COMPLETION | {"stream": True})])
    events = [
        json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line.startswith("data: {")
    ]
    choices = [choice for event in events for choice in event["choices"]]
    assert [choice["alignment"] for choice in choices] == [[[0.25, 0.75]], [[0.5, 0.25, 0.25]], [[0, 0, 0, 1]]]
    assert [choice.get("source") for choice in choices] == [["a", "b"], None, None]


def test_it_is_asked_for_by_a_parameter_and_for_few_tokens_unless_more_are_named():
    for max_length, asked, sent in (("64", {}, 32), ("20", {}, 10), ("64", {"max_tokens": 40}, 40)):
        triton = server(DELTAS, max_length=max_length)
        ask_each(triton, [("/v1/explain", EXPLANATION | asked)])
        request = next(one for one in triton.requests if "explain" in one.parameters)
        assert request.parameters["explain"].bool_param
        place = [one.name for one in request.inputs].index("max_tokens")
        assert int.from_bytes(request.raw_input_contents[place], "little") == sent


@pytest.mark.parametrize(
    "deltas",
    [
        [DELTAS[0], DELTAS[2]],
        [delta(alignment=floats([[[1, 0, 0]]]), token_texts=texts("a"), source_texts=texts("x"))],
        [delta(alignment=floats([[[1]]]), token_texts=texts("a", "b"), source_texts=texts("x"))],
    ],
)
def test_rows_that_fit_no_columns_are_no_answer(deltas):
    (answer,) = ask_each(server(deltas), [("/v1/explain", EXPLANATION)])
    assert answer.status_code == 502


def test_what_cannot_be_explained_is_refused_at_its_field():
    questions = [
        ("/v1/completions", COMPLETION | {"echo": True}),
        ("/v1/explain", {"model": "writer"}),
        ("/v1/explain", EXPLANATION | {"max_tokens": 0}),
        ("/v1/completions", COMPLETION | {"max_tokens": 3000, "n": 32}),
    ]
    answers = ask_each(server(DELTAS, max_length="4096"), questions)
    assert [answer.status_code for answer in answers] == [400] * 4
    assert [answer.json()["error"]["param"] for answer in answers[1:3]] == ["input", "max_tokens"]
    assert "no echo of a prompt" in answers[0].json()["error"]["message"]


def test_a_custom_model_whose_output_is_called_alignment_explains_nothing():
    aligner = FakeTriton(config_of("aligner", "predict", outputs=[("alignment", (2,))]))
    (answer,) = ask_each(aligner, [("/v1/explain", {"model": "aligner", "input": "ab"})])
    assert answer.status_code == 400 and "a model that shows what it attends to" in answer.json()["error"]["message"]
