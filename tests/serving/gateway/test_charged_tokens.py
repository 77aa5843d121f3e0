"""What a request takes of its key's quota where it does not come to its end."""

import asyncio
from collections import Counter

import pytest

from attendant.errors import DeadlineError, InputError
from clients.answer import Delta
from serving.gateway.answers import TokenUsage, count_tokens
from serving.gateway.middleware.keys import new_key
from tests.serving.gateway.fake_triton import FakeTriton, config_of, delta, floats, gateway_of, integers, texts


async def fail(error, *deltas):
    for one in deltas:
        yield one
    if error is None:
        await asyncio.sleep(3600)
    raise error


def charged(error, *deltas):
    async def read():
        usage = TokenUsage()
        reading = asyncio.ensure_future(anext(count_tokens(fail(error, *deltas), usage, "four words of text")))
        await asyncio.wait({reading}, timeout=0.05)
        reading.cancel()
        await asyncio.wait({reading})
        return usage.prompt + usage.unanswered

    return asyncio.run(read())


@pytest.mark.planted
@pytest.mark.parametrize("error", [None, DeadlineError("an answer", "none", "wait")], ids=["left", "late"])
def test_a_prompt_whose_answer_is_given_up_is_charged_as_it_is_estimated(error):
    assert charged(error) == 5


def test_one_that_is_refused_is_not_and_one_that_is_answered_is_charged_as_counted():
    assert charged(InputError("a prompt", "another", "correct it")) == 0
    assert charged(None, Delta(text="a", input_tokens=3)) == 3


@pytest.mark.planted
def test_an_explained_text_is_charged_with_its_prompt(tmp_path):
    answer = delta(
        alignment=floats([[[1, 0]]]),
        token_texts=texts("a"),
        source_texts=texts("x", "y"),
        num_input_tokens=integers([[17]]),
    )
    server = FakeTriton(
        config_of("translator", "translate", outputs=[("alignment", (1,))], max_length="64"), deltas=[answer]
    )
    key = new_key(tmp_path / "keys.json", "ann", tokens="1000/day")

    async def ask():
        async with gateway_of(server, keys=tmp_path / "keys.json") as client:
            headers = {"Authorization": f"Bearer {key}"}
            explained = await client.post("/v1/explain", json={"model": "translator", "input": "a"}, headers=headers)
            assert explained.status_code == 200, explained.text
            return await client.get("/v1/models", headers=headers)

    left = asyncio.run(ask()).headers["RateLimit"]
    assert "num_input_tokens" in str(server.requests[-1].inputs) and '"tokens";r=982;' in left


@pytest.mark.planted
def test_of_servers_with_other_limits_the_longest_answer_is_reserved(tmp_path):
    lengths = ("64", "512")
    servers = [FakeTriton(config_of("writer", "generate", max_length=one), deltas=[delta()]) for one in lengths]
    key = new_key(tmp_path / "keys.json", "ann", tokens="300/day")

    async def ask():
        async with gateway_of(*servers, keys=tmp_path / "keys.json") as client:
            headers, sent = {"Authorization": f"Bearer {key}"}, {"model": "writer", "prompt": "a"}
            return [(await client.post("/v1/completions", json=sent, headers=headers)).status_code for _ in range(4)]

    assert asyncio.run(ask()) == [400] * 4


@pytest.mark.planted
def test_chats_at_once_stay_within_the_quota_with_what_their_template_writes(tmp_path):
    told = delta(num_input_tokens=integers([[200]]))
    chatty = config_of("chatty", "generate", max_length="512", chat_template="x" * 190 + "{{ messages[0].content }}")
    key = new_key(tmp_path / "keys.json", "ann", tokens="1000/day")

    async def ask():
        async with gateway_of(FakeTriton(chatty, deltas=[told]), keys=tmp_path / "keys.json") as client:
            headers, body = {"Authorization": f"Bearer {key}"}, {"model": "chatty", "max_tokens": 1}
            sent = {**body, "messages": [{"role": "user", "content": "a"}]}
            chats = (client.post("/v1/chat/completions", json=sent, headers=headers) for _ in range(20))
            return Counter(answer.status_code for answer in await asyncio.gather(*chats))

    answered = asyncio.run(ask())
    assert answered.keys() == {200, 429} and answered[200] <= 1000 // 195


def test_so_is_that_of_what_a_model_has_become_since(tmp_path):
    server = FakeTriton(config_of("writer", "generate", max_length="64"), deltas=[delta()])
    key = new_key(tmp_path / "keys.json", "ann", tokens="300/day")

    async def ask():
        async with gateway_of(server, keys=tmp_path / "keys.json") as client:
            headers, sent = {"Authorization": f"Bearer {key}"}, {"model": "writer", "prompt": "a"}
            first = await client.post("/v1/completions", json=sent, headers=headers)
            server.configs = {"writer": config_of("writer", "generate", max_length="512")}
            await asyncio.sleep(0.3)  # longer than a gateway believes what a server said
            return first.status_code, (await client.post("/v1/completions", json=sent, headers=headers)).status_code

    assert asyncio.run(ask()) == (200, 400)


class SlowEmbedder(FakeTriton):
    async def infer(self, request):
        await asyncio.sleep(60)


@pytest.mark.planted
def test_texts_whose_vectors_are_given_up_are_charged_as_they_are_estimated(tmp_path):
    server = SlowEmbedder(config_of("embedder", "embed", outputs=[("pooled", (4,))], max_batch=8))
    key = new_key(tmp_path / "keys.json", "ann", tokens="1000/day")

    async def ask():
        async with gateway_of(server, keys=tmp_path / "keys.json", request_timeout_s=0.2) as client:
            headers = {"Authorization": f"Bearer {key}"}
            late = await client.post(
                "/v1/embeddings", json={"model": "embedder", "input": ["a" * 400] * 5}, headers=headers
            )
            assert late.status_code == 408, late.text
            return await client.get("/v1/models", headers=headers)

    assert '"tokens";r=500;' in asyncio.run(ask()).headers["RateLimit"]
