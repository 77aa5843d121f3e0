"""What is kept of answers that are sent as a whole."""

import asyncio

import pytest

from attendant.errors import ServerError
from clients.answer import Delta
from serving.gateway import answers
from serving.gateway.answers import read_all

MOST = 10_000


async def deltas(delta, count):
    for _ in range(count):
        yield delta


@pytest.mark.planted
@pytest.mark.parametrize(
    "delta",
    [Delta(text="a" * 100), Delta(text=""), Delta(text="", token_ids=(1, 2), top_logprobs=(((1, 0.0),) * 20,) * 2)],
    ids=["text", "nothing", "log-probabilities"],
)
def test_a_server_that_never_ends_an_answer_takes_a_bounded_part_of_memory(delta, monkeypatch):
    monkeypatch.setattr(answers, "MOST_KEPT_BYTES", MOST, raising=False)
    with pytest.raises(ServerError, match=f"answers of at most {MOST} bytes"):
        asyncio.run(read_all(deltas(delta, 1000)))
    assert len(asyncio.run(read_all(deltas(delta, 2)))) == 2
