"""Whether a model is still the one that it was: an answer of several requests must be of one load of it."""

import asyncio
from contextlib import suppress

from attendant.errors import AttendantError, LoadingError
from clients.served_model import ServedModel
from clients.triton_client import TritonClient

PATIENCE_S = 0.5
"""For what a server says of a model: while it loads one it says nothing of any."""


async def model_now(client: TritonClient, model: ServedModel) -> ServedModel:
    """What a server says of a model by now; what is known of it where the server does not say so soon."""
    with suppress(AttendantError, TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            return await client.model(model.name)
    return model


def loaded_anew(model: ServedModel) -> LoadingError:
    """The error of a request whose parts would be answers of different loads."""
    return LoadingError(f"one load of {model.name!r} for all of a request", "another meanwhile", "send it again")
