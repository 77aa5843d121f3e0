"""A request is taken back by another on its stream, before the real server."""

import asyncio

import numpy as np
from tritonclient.grpc import aio

from clients.request_stream import RequestStream
from tests.conftest import LANGUAGE_MODEL
from tests.text_checkpoints import OTHER_PROMPT


def _request():
    texts = aio.InferInput("text_input", [1, 1], "BYTES")
    texts.set_data_from_numpy(np.array([[OTHER_PROMPT.encode()]], dtype=object))
    streamed = aio.InferInput("stream", [1, 1], "BOOL")
    streamed.set_data_from_numpy(np.array([[True]]))
    inputs = [texts, streamed]
    return {"model_name": LANGUAGE_MODEL, "inputs": inputs, "parameters": {}, "enable_empty_final_response": True}


class _Counting(RequestStream):
    """Counts the tokens."""

    count = 0

    async def next(self):
        response = await super().next()
        tokens = response[0].as_numpy("output_ids") if response is not None else None
        self.count += 0 if tokens is None else tokens.size
        return response


async def _in_the_queue(server):
    """Twenty requests, the last of them taken back at once; how many tokens came for the first and for the last."""
    async with aio.InferenceServerClient(server.grpc) as client:
        streams = [_Counting(client.stream_infer, _request()) for _ in range(20)]
        *others, last = streams
        firsts = [asyncio.ensure_future(stream.next()) for stream in others]
        await asyncio.sleep(0.001)
        await asyncio.wait_for(last.leave(), 10)
        await asyncio.gather(*firsts)
        for stream in others:
            while not (await stream.next())[0].get_response().parameters["triton_final_response"].bool_param:
                pass
            stream.complete()
        return others[0].count, last.count


def test_a_request_that_is_taken_back_while_it_waits_is_not_answered(server):
    first, last = asyncio.run(_in_the_queue(server))
    assert first > 10
    assert last == 0
