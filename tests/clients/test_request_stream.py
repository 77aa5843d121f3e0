"""A request is cancelled by another, before a real server with one slot."""

import asyncio

import pytest
from tritonclient.grpc import aio
from tritonclient.utils import np_to_triton_dtype

from attendant.errors import CancelledError, InputError
from attendant.sampling_params import SamplingParams
from attendant.sampling_tensors import prompt_tensors, tensors_of
from attendant.tensor_names import CANCEL, CANCEL_KEY
from clients.calls import RequestStream
from clients.statuses import error_from
from tests.conftest import LANGUAGE_MODEL, NARROW_LENGTH
from tests.end_to_end.asking import PATIENCE_S, active, counted, until
from tests.text_checkpoints import OTHER_PROMPT

LONGEST = NARROW_LENGTH - 96


def _request(max_tokens):
    arrays = prompt_tensors(OTHER_PROMPT) | tensors_of(SamplingParams(max_tokens=max_tokens, ignore_eos=True))
    inputs = [aio.InferInput(name, array.shape, np_to_triton_dtype(array.dtype)) for name, array in arrays.items()]
    for tensor in inputs:
        tensor.set_data_from_numpy(arrays[tensor.name()])
    return {"model_name": LANGUAGE_MODEL, "inputs": inputs, "parameters": {}, "enable_empty_final_response": True}


class _Counting(RequestStream):
    """Counts the tokens."""

    count = 0

    async def next(self):
        response = await super().next()
        tokens = response[0].as_numpy("output_ids") if response is not None and response[0] is not None else None
        self.count += 0 if tokens is None else tokens.size
        return response


async def _answered(stream):
    while (response := await stream.next()) is not None:
        if response[0].get_response().parameters["triton_final_response"].bool_param:
            stream.complete()


async def _in_the_queue(server):
    """One request has the slot, two wait, and first the one that waits is taken back: the tokens that came for each."""

    def waiting():
        return counted(server, LANGUAGE_MODEL, "attendant_num_requests_waiting")

    async with aio.InferenceServerClient(server.grpc) as client:
        served = _Counting(client.stream_infer, _request(LONGEST))
        assert await until(lambda: active(server) == 1)
        left = _Counting(client.stream_infer, _request(3))
        assert await until(lambda: waiting() == 1)
        other = _Counting(client.stream_infer, _request(3))
        assert await until(lambda: waiting() == 2)
        await asyncio.wait_for(left.cancel(), PATIENCE_S)
        assert await until(lambda: waiting() == 1)
        assert active(server) == 1, "the answer that has the slot should have outlasted this"
        await asyncio.wait_for(served.cancel(), PATIENCE_S)
        await asyncio.wait_for(_answered(other), PATIENCE_S)
        return served.count, left.count, other.count


def test_a_request_that_is_taken_back_is_not_answered_and_the_one_behind_it_is(narrow):
    served, left, other = asyncio.run(_in_the_queue(narrow))
    assert served < LONGEST
    assert (left, other) == (0, 3)


class _Raw:
    """One request on a stream of its own, as somebody sends it who writes the parameters by hand."""

    def __init__(self, client, request_id="", parameters=None, max_tokens=LONGEST):
        self.request = _request(max_tokens) | {"request_id": request_id, "parameters": parameters or {}}
        self.count, self.error, self.begun, self.ended = 0, None, asyncio.Event(), asyncio.Event()
        self.task = asyncio.ensure_future(self._read(client))

    async def _requests(self):
        yield self.request
        if CANCEL not in self.request["parameters"]:  # its answer is the end of the stream
            await self.ended.wait()

    async def _read(self, client):
        async for result, error in client.stream_infer(self._requests()):
            if error is not None:
                self.error = error_from("", str(error.message()), LANGUAGE_MODEL, "")
                self.ended.set()
                continue
            tokens = result.as_numpy("output_ids")
            if tokens is not None:
                self.count += tokens.size
                self.begun.set()
            if result.get_response().parameters["triton_final_response"].bool_param:
                self.ended.set()


async def _with_owner(server, parameters, cancelled, max_tokens):
    """A request of id "1" has the slot while another call cancels what it names: the request, once it has ended."""
    async with aio.InferenceServerClient(server.grpc) as client:
        owner = _Raw(client, "1", parameters, max_tokens=max_tokens)
        await asyncio.wait_for(owner.begun.wait(), PATIENCE_S)
        other = _Raw(client, "1", {CANCEL: cancelled})
        await asyncio.wait_for(other.task, PATIENCE_S)
        await asyncio.wait_for(owner.task, PATIENCE_S)
        return owner


OWNED = 512
KEY = "e2c0aRandomSecretOf22c"


@pytest.mark.planted
@pytest.mark.parametrize("parameters", [{}, {CANCEL_KEY: KEY}], ids=["without a key", "with a key"])
@pytest.mark.parametrize("cancelled", ["1", KEY[:-1] + "d"])
def test_who_does_not_hold_the_key_ends_nobodys_answer(narrow, parameters, cancelled):
    owner = asyncio.run(_with_owner(narrow, parameters, cancelled, OWNED))
    assert (owner.count, owner.error) == (OWNED, None)


def test_a_cancelled_answer_ends_with_an_error_that_says_so(narrow):
    owner = asyncio.run(_with_owner(narrow, {CANCEL_KEY: KEY}, KEY, LONGEST))
    assert owner.count < LONGEST
    assert isinstance(owner.error, CancelledError)


def test_a_request_that_was_cancelled_before_it_came_is_not_answered(narrow):
    async def overtaken():
        async with aio.InferenceServerClient(narrow.grpc) as client:
            await asyncio.wait_for(_Raw(client, "", {CANCEL: KEY[::-1]}).task, PATIENCE_S)
            late = _Raw(client, "", {CANCEL_KEY: KEY[::-1]})
            await asyncio.wait_for(late.task, PATIENCE_S)
            return late

    late = asyncio.run(overtaken())
    assert late.count < LONGEST and isinstance(late.error, CancelledError)


@pytest.mark.parametrize(
    ("name", "key"), [(CANCEL_KEY, "short"), (CANCEL_KEY, "x" * 1000), (CANCEL, False), (CANCEL, 7)]
)
def test_a_key_that_could_be_guessed_or_is_no_key_is_refused(narrow, name, key):
    async def refused():
        async with aio.InferenceServerClient(narrow.grpc) as client:
            raw = _Raw(client, "", {name: key})
            await asyncio.wait_for(raw.task, PATIENCE_S)
            return raw.error

    error = asyncio.run(refused())
    assert isinstance(error, InputError) and error.param == name
