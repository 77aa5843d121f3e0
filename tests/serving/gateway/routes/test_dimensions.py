"""Vectors that are shortened as OpenAI does."""

import asyncio

import numpy as np
import pytest

from tests.serving.gateway.fake_triton import FakeTriton, config_of, floats, gateway_of, integers

MODEL = config_of("embedder", "embed", outputs=[("hidden", (4,)), ("token_mask", (1,)), ("pooled", (4,))])
ANSWER = {"pooled": floats([[3, 4, 5, 6]]), "token_mask": integers([[1]])}


def embed(**asked):
    async def ask():
        async with gateway_of(FakeTriton(MODEL, answer=ANSWER)) as client:
            body = {"model": "embedder", "input": "a", "pooling": "pooled", **asked}
            return (await client.post("/v1/embeddings", json=body)).json()

    return asyncio.run(ask())


def test_the_first_numbers_of_a_vector_are_scaled_to_length_1():
    assert embed()["data"][0]["embedding"] == [3, 4, 5, 6]
    np.testing.assert_allclose(embed(dimensions=2)["data"][0]["embedding"], [0.6, 0.8], rtol=1e-6)


def test_special_tokens_are_read_in_texts_where_that_is_said():
    assert asked_parameters(parse_special=True) == {"parse_special": True} and asked_parameters() == {}


def asked_parameters(**sent):
    text = "a text that no canary asks"

    class Listening(FakeTriton):
        async def infer(self, request):
            if text.encode() in request.raw_input_contents[0]:
                self.requests.append({name: value.bool_param for name, value in request.parameters.items()})
            return await super().infer(request)

    server = Listening(MODEL, answer=ANSWER)

    async def ask():
        async with gateway_of(server) as client:
            body = {"model": "embedder", "input": text, "pooling": "pooled", **sent}
            assert (await client.post("/v1/embeddings", json=body)).status_code == 200

    asyncio.run(ask())
    (asked,) = server.requests
    return asked


@pytest.mark.parametrize("dimensions", [0, 5])
def test_more_than_there_are_and_none_are_refused(dimensions):
    assert embed(dimensions=dimensions)["error"]["param"] == "dimensions"
