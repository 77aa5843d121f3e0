"""What the client makes of a server's odd answers."""

import asyncio

from clients.triton_client import TritonClient


def test_an_index_with_a_name_that_is_not_utf8_names_no_failed_model(monkeypatch):
    async def index(**_):
        return None  # which grpc.aio gives for a message that it cannot parse

    async def failed():
        async with TritonClient("127.0.0.1:1") as client:
            monkeypatch.setattr(client._client, "get_model_repository_index", index)
            return await client.failed_models()

    assert asyncio.run(failed()) == {}
