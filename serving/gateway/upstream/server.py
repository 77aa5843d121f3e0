"""One Triton server behind the gateway: how busy it is, what it serves, and which models of it are left out for a time.

A model is left out when the server cannot be reached or the model's worker is dead, and after some failures in a row. A
request that comes :data:`OUT_S` later is a trial, and lets it in again when it succeeds; so does its canary.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from pybreaker import CircuitBreaker

from attendant.errors import AttendantError, ServerError, UnfinishedError, UnreachableError
from clients.canary import Verdict, ask
from clients.served_model import ServedModel
from clients.triton_client import TritonClient

FAILURES = 3
OUT_S = 5.0


class Upstream:
    """One server.

    Attributes:
        address: of its gRPC endpoint.
        client: asks it.
        in_flight: requests under way.
        models: name → what it says of those that it serves, as far as it was asked.
        verdicts: name → what its last canary found.
    """

    def __init__(self, address: str, timeout_s: float) -> None:
        """Connect when first asked; in a running event loop."""
        self.address = address
        self.client = TritonClient(address, timeout_s)
        self.in_flight = 0
        self.models: dict[str, ServedModel] = {}
        self.verdicts: dict[str, Verdict] = {}
        self._breakers: dict[str, CircuitBreaker] = {}
        self._gone: dict[str, asyncio.Event] = {}

    async def model(self, name: str) -> ServedModel:
        """What it says of a model, which is asked once.

        Raises:
            UnknownNameError: it serves no model of that name.
            UnreachableError: nothing answers.
        """
        if name not in self.models:
            self.models[name] = await self.client.model(name)
        return self.models[name]

    @contextmanager
    def working(self, model: str, trial: bool = True) -> Iterator[None]:
        """While it works on a request; the errors of the block are counted.

        Args:
            model: that is asked.
            trial: whether to raise where the model is left out, and no trial is due.

        Raises:
            pybreaker.CircuitBreakerError: it is.
        """
        self.in_flight += 1
        try:
            if trial:
                with self._breaker(model).calling():
                    yield
            else:
                yield
        except UnreachableError:
            self.leave_out(model)
            raise
        finally:
            self.in_flight -= 1

    def is_out(self, model: str) -> bool:
        """Whether a model of it is left out."""
        breaker = self._breakers.get(model)
        return breaker is not None and breaker.current_state == "open"

    def gone(self, model: str) -> asyncio.Event:
        """Is set when a model is left out next: who has got nothing by then need not wait any longer."""
        return self._gone.setdefault(model, asyncio.Event())

    def leave_out(self, model: str) -> None:
        """Ask it no more for this model for a while."""
        self._breaker(model).open()
        self._gone.pop(model, asyncio.Event()).set()

    def let_in(self, model: str) -> None:
        """Ask it again."""
        self._breaker(model).close()

    async def probe(self) -> None:
        """Read anew which models it serves, and send each its canary."""
        try:
            names = await self.client.models()
            self.models = {name: await self.client.model(name) for name in names}
        except AttendantError as error:
            for name in self.models:
                self._judge(name, error)
            return
        self.verdicts = {name: verdict for name, verdict in self.verdicts.items() if name in self.models}
        await asyncio.gather(*(self._canary(model) for model in self.models.values()))

    async def _canary(self, model: ServedModel) -> None:
        try:
            verdict = await ask(self.client, model)
        except UnfinishedError:
            return  # a full line is no illness
        except AttendantError as error:
            self._judge(model.name, error)
            return
        self.verdicts[model.name] = verdict
        if verdict.right:
            self.let_in(model.name)
        else:
            self.leave_out(model.name)

    def _judge(self, name: str, error: AttendantError) -> None:
        self.verdicts[name] = Verdict(found=str(error), right=False)
        self.leave_out(name)

    def _breaker(self, model: str) -> CircuitBreaker:
        if model not in self._breakers:
            self._breakers[model] = CircuitBreaker(
                fail_max=FAILURES, reset_timeout=OUT_S, exclude=[_is_no_failure], throw_new_error_on_trip=False
            )
        return self._breakers[model]


def _is_no_failure(error: BaseException) -> bool:
    return not isinstance(error, ServerError)
