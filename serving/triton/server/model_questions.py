"""Questions to one model of a running server, asked for as long as its workers live and move."""

import asyncio
import time
from collections.abc import Awaitable
from contextlib import suppress

from attendant.errors import AttendantError, LateError, UnfinishedError, UnreachableError
from clients.canary import CanaryResult, engine_health
from clients.served_model import ServedModel
from clients.triton_client import TritonClient
from serving.triton.server.engine_trouble import trouble_of
from serving.triton.server.futures import Result, begin
from serving.triton.server.life_signs import HangError, LifeSigns, ServerPulse

LOOK_S = 1.0
"""How long a server may take to say what it has answered, and a folder until it is looked at again."""


class ModelQuestions:
    """What asks them, and what it knows of the model by now."""

    def __init__(self, name: str, client: TritonClient, pulse: ServerPulse) -> None:
        self.name, self._client = name, client
        self._served: ServedModel | None = None
        self._signs, self._usage = LifeSigns([], pulse), (0, 0, 0)

    async def _ask_engine(self, example: Awaitable[CanaryResult], patience_s: float) -> CanaryResult | None:
        """The verdict on the example of a model that says its health, which alone tells whether it hangs."""
        assert self._served is not None
        canary, until_s = begin(example), time.monotonic() + patience_s
        try:
            while not canary.done():
                if time.monotonic() > until_s:
                    return None
                await self._while_alive(asyncio.wait({canary}, timeout=1.0))
                health = await self._ask(engine_health(self._client, self._served))
                if health is not None and (trouble := trouble_of(health)):
                    raise HangError("an engine that answers", trouble, "none", message=trouble)
            with suppress(LateError, UnfinishedError, UnreachableError):
                return await canary
            return None
        finally:
            canary.cancel()

    async def _ask(self, question: Awaitable[Result]) -> Result | None:
        """The answer to a question; None where there was none.

        Raises:
            HangError: Triton has given the question up, and the worker stands still: once it goes on, what it answers
                to such questions can end tritonserver 2.51 (docs/log.md).
        """
        self._signs.is_asked = True
        try:
            answer = await self._while_alive(question)
        except LateError:
            return None
        except UnreachableError as error:
            if not self._signs.stand_still:
                return None
            await self._client.server_name(1.0)  # else it is the server that is gone
            raise HangError("a worker that goes on", str(error), "none", message="its worker stands still") from error
        except UnfinishedError:  # it is at work
            answer = None
        except HangError:
            raise
        except AttendantError:
            self._signs.is_asked = False
            raise
        self._signs.is_asked = False
        return answer

    async def _while_alive(self, work: Awaitable[Result]) -> Result:
        """The result of some work, as long as the model's workers live and move.

        Raises:
            HangError: one is dead, or none has done or answered anything for too long.
        """
        future = begin(work)
        while not future.done():
            began_s = time.monotonic()
            await asyncio.wait({future}, timeout=self._signs.tick_s)
            self._signs.look(time.monotonic() - began_s)
            if self._signs.hang or self._signs.are_late:
                await self._client.server_name(1.0)  # else it is the server that hangs
                if self._signs.hang or not await self._has_answered_others():
                    raise self._signs.silence
                self._signs.note_answer()
        return future.result()

    async def _has_answered_others(self) -> bool:
        # Whose requests stand before the question, however long that takes. Streams are counted once they end, and the
        # engines of a generative model are watched by their own workers.
        if self._served is not None and self._served.decoupled and not self._served.says_health:
            return True
        with suppress(AttendantError, TimeoutError):
            async with asyncio.timeout(LOOK_S):
                usage = await self._client.usage(self.name)
                has = usage != self._usage
                if all(now >= was for now, was in zip(usage, self._usage, strict=True)):  # else of another load
                    self._usage = usage
                return has
        return True  # a server that loads a model says nothing of any
