"""One Triton server of a gateway: how busy it is, what it serves, which of its models are ejected for a time.

A model is ejected when the server cannot be reached or its worker is dead, and after some failures in a row. Its
breaker is half-open :data:`EJECTED_S` later: a request that succeeds then readmits it; so does its canary.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from pybreaker import CircuitBreaker

from attendant.errors import AttendantError, ServerError, UnfinishedError, UnreachableError
from clients.canary import CanaryResult, check_answer
from clients.served_model import ServedModel
from clients.tls import Tls, file_versions
from clients.triton_client import TritonClient

_LOG = logging.getLogger("attendant.upstream")
FAILURES = 3
EJECTED_S = 5.0


class Upstream:
    """One server.

    Attributes:
        address: of its gRPC endpoint.
        client: asks it.
        in_flight: requests under way.
        models: name → what it says of those that it serves, as far as it was asked.
        verdicts: name → what its last canary found.
    """

    def __init__(self, address: str, timeout_s: float, tls: Tls | None = None) -> None:
        """Connect when first asked; in a running event loop."""
        self.address, self._timeout_s, self._tls = address, timeout_s, tls or Tls()
        self._versions = self._refused = file_versions(self._tls.files)
        self.client = TritonClient(address, timeout_s, tls=tls)
        self._former: TritonClient | None = None
        self.in_flight = 0
        self.models: dict[str, ServedModel] = {}
        self.verdicts: dict[str, CanaryResult] = {}
        self._breakers: dict[str, CircuitBreaker] = {}

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
    def track_request(self, model: str, by_breaker: bool = True) -> Iterator[None]:
        """While it works on a request; the errors of the block are counted.

        Args:
            model: that is asked.
            by_breaker: whether to raise where the model is ejected and its breaker not half-open.

        Raises:
            pybreaker.CircuitBreakerError: it is.
        """
        self.in_flight += 1
        try:
            if by_breaker:
                with self._breaker(model).calling():
                    yield
            else:
                yield
        except UnreachableError:
            self.eject(model)
            raise
        finally:
            self.in_flight -= 1

    def is_ejected(self, model: str) -> bool:
        breaker = self._breakers.get(model)
        return breaker is not None and breaker.current_state == "open"

    def eject(self, model: str) -> None:
        """Ask it no more for this model for a while."""
        self._breaker(model).open()

    def readmit(self, model: str) -> None:
        self._breaker(model).close()

    async def probe(self) -> None:
        """Read anew which models it serves, and send each its canary."""
        await self._renew_client()
        try:
            names = await self.client.models()
            self.models = {name: await self.client.model(name) for name in names}
        except AttendantError as error:
            for name in self.models:
                self._fail(name, error)
            return
        self.verdicts = {name: verdict for name, verdict in self.verdicts.items() if name in self.models}
        await asyncio.gather(*(self._canary(model) for model in self.models.values()))

    async def close(self) -> None:
        """End every connection."""
        for client in (self._former, self.client):
            if client is not None:
                await client.__aexit__(None, None, None)

    async def _renew_client(self) -> None:
        """Connect anew where certificates have changed and the server takes them; until it does, the old ones stay.

        Requests under way end on the former connection, which ends with the renewal after this one.
        """
        versions = file_versions(self._tls.files)
        if versions == self._versions:
            return
        client: TritonClient | None = None
        try:
            client = TritonClient(self.address, self._timeout_s, tls=self._tls)
            await client.server_name()
        except AttendantError as error:  # half of the files may be new, or the server does not know them yet
            if versions != self._refused:
                _LOG.warning("the certificates in use towards %s stay: %s", self.address, error)
            ended, self._refused = client, versions
        else:
            ended, self._former, self.client, self._versions = self._former, self.client, client, versions
        if ended is not None:
            await ended.__aexit__(None, None, None)

    async def _canary(self, model: ServedModel) -> None:
        try:
            verdict = await check_answer(self.client, model)
        except UnfinishedError:
            return  # a full queue is no failure
        except AttendantError as error:
            self._fail(model.name, error)
            return
        self.verdicts[model.name] = verdict
        if verdict.right:
            self.readmit(model.name)
        else:
            self.eject(model.name)

    def _fail(self, name: str, error: AttendantError) -> None:
        self.verdicts[name] = CanaryResult(found=str(error), right=False)
        self.eject(name)

    def _breaker(self, model: str) -> CircuitBreaker:
        if model not in self._breakers:
            self._breakers[model] = CircuitBreaker(
                fail_max=FAILURES, reset_timeout=EJECTED_S, exclude=[_is_no_failure], throw_new_error_on_trip=False
            )
        return self._breakers[model]


def _is_no_failure(error: BaseException) -> bool:
    return not isinstance(error, ServerError)
