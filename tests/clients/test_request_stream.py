"""A request is taken back by another on its stream, before the real server."""

import asyncio

from tritonclient.grpc import aio
from tritonclient.utils import np_to_triton_dtype

from clients.decoding import Decoding
from clients.decoding_tensors import question_tensors, tensors_of
from clients.request_stream import RequestStream
from serving.generation.settings import EngineSettings
from tests.conftest import LANGUAGE_MODEL
from tests.text_checkpoints import OTHER_PROMPT

EVERY_SLOT = Decoding(temperature=1.0, candidates=EngineSettings().slots, ignore_end=True)


def _request():
    arrays = question_tensors(OTHER_PROMPT) | tensors_of(EVERY_SLOT)
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
    """Requests that each take every slot, the last of them taken back at once; how many tokens came for each."""
    async with aio.InferenceServerClient(server.grpc) as client:
        others = [_Counting(client.stream_infer, _request()) for _ in range(20)]
        answered = [asyncio.ensure_future(_answered(stream)) for stream in others]
        await asyncio.wait(answered, timeout=10, return_when=asyncio.FIRST_COMPLETED)
        last = _Counting(client.stream_infer, _request())
        await asyncio.sleep(0.001)
        await asyncio.wait_for(last.leave(), 10)
        assert not all(stream.done() for stream in answered), "it should have had to wait"
        await asyncio.wait_for(asyncio.gather(*answered), 60)
        return [stream.count for stream in (*others, last)]


def test_a_request_that_is_taken_back_while_it_waits_is_not_answered(server):
    *others, last = asyncio.run(_in_the_queue(server))
    assert min(others) > 10 * EngineSettings().slots
    assert last == 0
