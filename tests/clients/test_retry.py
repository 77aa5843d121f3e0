import asyncio
import json
import math

import grpc
import numpy as np
import pytest

from attendant.errors import BusyError, ConfigError, InputError
from clients.retry import RetryPolicy
from clients.statuses import CUT_TEXT
from clients.triton_client import TritonClient
from tests.serving.gateway.fake_triton import FakeTriton, listening


def pauses(policy, tries):
    return [policy.pause_after(tries) for _ in range(200)]


def test_nothing_is_sent_twice_by_default():
    assert RetryPolicy().pause_after(1) is None


def test_there_are_as_many_tries_as_were_asked_for():
    policy = RetryPolicy(tries=3)
    assert [policy.pause_after(tries) is None for tries in (1, 2, 3, 4)] == [False, False, True, True]


@pytest.mark.parametrize(("tries", "longest"), [(1, 0.5), (2, 1.0), (3, 1.5), (9, 1.5)])
def test_pauses_are_spread_from_nothing_to_a_bound_that_doubles_up_to_the_longest(tries, longest):
    found = pauses(RetryPolicy(tries=10, pause_s=0.5, longest_pause_s=1.5), tries)
    assert 0 <= min(found) < 0.1 * longest and 0.9 * longest < max(found) <= longest


def test_a_pause_stays_the_longest_however_often_was_tried():
    assert max(pauses(RetryPolicy(tries=10_000, longest_pause_s=1.5), 9_999)) <= 1.5


@pytest.mark.parametrize("wrong", [{"tries": 0}, {"pause_s": -1.0}, {"longest_pause_s": math.nan}])
def test_a_policy_that_cannot_be_is_refused_by_name(wrong):
    (name,) = wrong
    with pytest.raises(ConfigError, match=name):
        RetryPolicy(**wrong)


TOO_LONG = InputError("at most 64 tokens", f"{CUT_TEXT} and more", "cut it")


class BesideCutTexts(FakeTriton):
    """Triton, so many of whose batches hold a request whose text is cut."""

    def __init__(self, cut, said=f"{CUT_TEXT} for inference input 'text_input'"):
        super().__init__(answer={"y": ("FP32", [1], np.float32([7]).tobytes())})
        self.cut, self.said = cut, said

    async def ModelInfer(self, request, context):  # noqa: N802  gRPC names it
        self.cut -= 1
        if self.cut >= 0:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, self.said)
        return await super().ModelInfer(request, context)


async def asked(server):
    async with listening(server) as address, TritonClient(address) as client:
        return (await client.infer("emb", {"x": np.ones(1, np.float32)}))["y"].tolist()


def test_a_whole_request_is_sent_again_beside_one_whose_text_is_cut():
    assert asyncio.run(asked(BesideCutTexts(9))) == [7]


def test_a_request_that_is_always_beside_a_cut_one_finds_a_busy_server():
    with pytest.raises(BusyError, match="a text of another that is cut, 10 times"):
        asyncio.run(asked(BesideCutTexts(10)))


@pytest.mark.parametrize("said", ["unexpected shape for input 'x'", json.dumps(TOO_LONG.to_json())])
def test_a_request_that_is_refused_for_itself_is_sent_once(said):
    server = BesideCutTexts(2, said)
    with pytest.raises(InputError, match=r"unexpected shape|at most 64"):
        asyncio.run(asked(server))
    assert server.cut == 1
