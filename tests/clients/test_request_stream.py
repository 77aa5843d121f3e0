"""A request is cancelled by another on its stream, before a real server with one slot."""

import asyncio

from tritonclient.grpc import aio
from tritonclient.utils import np_to_triton_dtype

from attendant.sampling_params import SamplingParams
from attendant.sampling_tensors import prompt_tensors, tensors_of
from clients.calls import RequestStream
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
        tokens = response[0].as_numpy("output_ids") if response is not None else None
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
