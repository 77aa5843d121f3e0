"""Whether a model is still the one that it was: an answer of several requests must be of one load of it."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from attendant.errors import AttendantError, LoadingError
from clients.served_model import ServedModel
from clients.triton_client import TritonClient

PATIENCE_S = 0.5
"""For what a server says of a model: while it loads one it says nothing of any."""


@dataclass(frozen=True, slots=True)
class Load:
    """A load of a model, as far as a server tells.

    Attributes:
        model: what it says of the model.
        usage: what it has done since it was loaded, as :meth:`clients.triton_client.TritonClient.usage` gives it; none
            where the server did not say so soon.
    """

    model: ServedModel
    usage: tuple[int, int, int] | None = None

    @classmethod
    async def now(cls, client: TritonClient, model: ServedModel) -> "Load":
        """That of a model by now; what is known of it where the server does not say so soon."""
        with suppress(AttendantError, TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                return cls(await client.model(model.name), await client.usage(model.name))
        return cls(model)

    def lasts(self, later: "Load", requests: int) -> bool:
        """Whether a later look is at the same load, which has answered so many requests meanwhile.

        Each load counts from zero, and the last of them may not be counted yet.
        """
        if self.model != later.model or self.usage is None or later.usage is None:
            return self.model == later.model
        if not any((*self.usage, *later.usage)):  # by a server that counts nothing
            return True
        grew = all(now >= was for now, was in zip(later.usage, self.usage, strict=True))
        return grew and later.usage[0] >= self.usage[0] + requests - 1


def loaded_anew(model: ServedModel) -> LoadingError:
    """The error of a request whose parts would be answers of different loads."""
    return LoadingError(f"one load of {model.name!r} for all of a request", "another meanwhile", "send it again")
