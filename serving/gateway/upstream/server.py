"""One Triton server of a gateway: how busy it is, what it serves, which of its models are ejected for a time.

A model is ejected when the server cannot be reached or its worker is dead, and after some failures in a row. Its
breaker is half-open :data:`EJECTED_S` later: a request that succeeds then readmits it; so does its canary.
"""

import asyncio
import logging
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from pybreaker import CircuitBreaker

from attendant.errors import (
    AttendantError,
    LateError,
    ServerError,
    TemplateError,
    UnfinishedError,
    UnknownNameError,
    UnreachableError,
)
from clients.calls import arrives
from clients.canary import CanaryResult, check_answer
from clients.served_model import ServedModel
from clients.tls import Tls
from clients.triton_client import TritonClient

_LOG = logging.getLogger("attendant.upstream")
FAILURES = 3
EJECTED_S = 5.0
CANARY_S = 3.5
"""For a canary of what answers nobody else meanwhile."""
MOST_LATE_CALLS = 100
"""Calls that a server never ends, each of which keeps its tensors: beyond that it is connected anew."""
MOST_BYTES = 1 << 28
"""Of one message of a server: what a hostile one can take of our memory at once."""
FRESH_S = 0.25
"""How old what a server said of a model may be: a model that is loaded anew is away for longer."""
PATIENCE_S = 0.5
"""For a new answer, where there is an old one; longer where the server is far away."""
TIMES_AS_FAR = 4
MOST_PATIENCE_S = 2.0
BACK_S = 15.0
"""How long a server that was gone may lack what it had before: it begins without a model, and learns of each."""
DESCRIBED_AT_ONCE = 16
"""Models of one server that are asked about together: one after the other takes long where it is far away."""
Result = TypeVar("Result")


class Upstream:
    """One server.

    Attributes:
        address: of its gRPC endpoint.
        client: asks it.
        models: name → what it says of those that it serves, as far as it was asked.
        verdicts: name → what its last canary found.
    """

    def __init__(self, address: str, timeout_s: float, tls: Tls | None = None) -> None:
        """Connect when first asked; in a running event loop."""
        self.address, self._timeout_s, self._tls = address, timeout_s, tls or Tls()
        self._version = self._refused = self._tls.version
        self.client = self._connect()
        self._former: list[tuple[TritonClient, frozenset[object]]] = []  # and the requests that may use it
        self._requests = set[object]()
        self.models: dict[str, ServedModel] = {}
        self._outdated = set[str]()
        self._had, self._gone_s = set[str](), -math.inf  # models before it was last seen to be gone, and when
        self.verdicts: dict[str, CanaryResult] = {}
        self._answered: Counter[str] = Counter()
        self._described, self._described_s = 0, dict[str, float]()  # models of a probe; when each was last
        self._told_in_s = deque[float](maxlen=3)  # how long it took of late to say what a model is
        self._asking = dict[str, tuple[float, asyncio.Future[ServedModel]]]()
        self._breakers: dict[str, CircuitBreaker] = {}

    @property
    def awaited(self) -> frozenset[str]:
        """What it had before it was gone; it may not have it yet."""
        is_just_back = time.monotonic() - self._gone_s < BACK_S
        return frozenset(self._had) if is_just_back else frozenset()

    @property
    def in_flight(self) -> int:
        """How many requests are under way."""
        return len(self._requests)

    async def model(self, name: str) -> ServedModel:
        """What it says of a model, which is asked once.

        Raises:
            UnknownNameError: it serves no model of that name.
            UnreachableError: nothing answers.
        """
        if name not in self.models:
            await self._describe(name)
        return self.models[name]

    async def current(self, model: ServedModel) -> ServedModel:
        """What it says of a model now, or said a moment ago: it may have been loaded anew, from another artefact.

        A server that loads a model answers no such question meanwhile: what it said before is then good enough for all
        others. Where the connection broke, nothing is.

        Raises:
            UnknownNameError: it is back without it.
            UnreachableError: nothing answers.
        """
        name = model.name
        self._note_break()
        if name in self._outdated:
            return await self._describe(name)
        if time.monotonic() - self._described_s.get(name, -math.inf) <= FRESH_S:
            return self.models.get(name, model)  # which another request may have asked for since
        if name not in self._asking:
            self._asking[name] = time.monotonic(), asyncio.ensure_future(self._describe(name))
            self._asking[name][1].add_done_callback(partial(self._end_asking, name))
        asked_s, answer = self._asking[name]
        away_s = min(self._told_in_s, default=0.0)
        patience_s = max(PATIENCE_S, min(TIMES_AS_FAR * away_s, MOST_PATIENCE_S))
        left_s = asked_s + patience_s - time.monotonic()
        if left_s > 0 and await arrives(answer, left_s):
            with suppress(LateError, UnreachableError):  # which the request itself will meet
                return answer.result()
        return self.models.get(name, model)

    def _note_break(self) -> None:
        if not self.client.is_connected:
            self._outdated |= self.models.keys()
            self._had |= self.models.keys()
            self._gone_s = time.monotonic()

    def _end_asking(self, name: str, answer: asyncio.Future[ServedModel]) -> None:
        del self._asking[name]
        answer.cancelled() or answer.exception()

    async def _describe(self, name: str) -> ServedModel:
        described_s = time.monotonic()
        try:
            model = await self.client.model(name)
        except UnknownNameError as error:
            if name in self.awaited:
                expected = f"the model {name!r} at {self.address}, which is just back"
                raise UnreachableError(expected, "it is not loaded yet", "retry in some seconds") from error
            raise
        self.models[name] = model
        self._described_s[name] = described_s
        self._told_in_s.append(time.monotonic() - described_s)
        self._outdated.discard(name)
        return model

    def bound(self, name: str, parameter: str) -> int | None:
        """One of the bounds of a generative model; None where it does not say so."""
        value = self.models[name].parameters.get(parameter) if name in self.models else None
        return value if isinstance(value, int) else None

    @contextmanager
    def track_request(self, model: str, by_breaker: bool = True) -> Iterator[None]:
        """While it works on a request; the errors of the block are counted.

        Args:
            model: that is asked.
            by_breaker: whether to raise where the model is ejected and its breaker not half-open.

        Raises:
            pybreaker.CircuitBreakerError: it is.
        """
        began_s, one = time.monotonic(), object()
        self._requests.add(one)
        try:
            if by_breaker:
                with self._breaker(model).calling():
                    late = None
                    try:
                        yield
                    except LateError as error:
                        if self.client.answered_s.get(model, -math.inf) < began_s:  # nor others
                            raise
                        late = error
                if late is not None:
                    raise late
            else:
                yield
            self._answered[model] += 1
        except UnreachableError:
            self._note_break()
            self._outdated |= self.models.keys()
            self.eject(model)
            raise
        finally:
            self._requests.discard(one)

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
        await self._end_former()  # first: what was replaced now may still be asked for a moment
        await self._renew_client()
        if self.client.late_calls >= MOST_LATE_CALLS:
            self._replace_client(self._connect())
        try:
            self.models = await self._in_time(self._read_models(), lambda: (self._described, self._answers()))
        except AttendantError as error:
            self._note_break()
            self._outdated |= self.models.keys()
            for name in self.models:
                self._fail(name, error)
            return
        self._outdated.clear()
        if time.monotonic() - self._gone_s > BACK_S:
            self._had.clear()
        self._described_s = {
            name: described_s for name, described_s in self._described_s.items() if name in self.models
        }
        self.verdicts = {name: verdict for name, verdict in self.verdicts.items() if name in self.models}
        self._breakers = {name: breaker for name, breaker in self._breakers.items() if name in self.models}
        await asyncio.gather(*(self._canary(model) for model in self.models.values()))

    async def close(self) -> None:
        """End every connection."""
        for client in (*(former for former, _ in self._former), self.client):
            await client.__aexit__(None, None, None)

    async def _read_models(self) -> dict[str, ServedModel]:
        names, found = await self.client.models(), list[ServedModel | None]()
        for begin in range(0, len(names), DESCRIBED_AT_ONCE):
            found += await asyncio.gather(*map(self._read_model, names[begin : begin + DESCRIBED_AT_ONCE]))
        return {model.name: model for model in found if model is not None}

    async def _read_model(self, name: str) -> ServedModel | None:
        described_s = time.monotonic()
        try:
            model = await self.client.model(name)
        except UnknownNameError:
            return None  # it was unloaded meanwhile
        except (LateError, UnreachableError):
            raise
        except ServerError as error:  # of this model alone
            if name in self.models:
                self._fail(name, error)
            _LOG.warning("%s: the model %r is left out: %s", self.address, name, error)
            return None
        else:
            self._described_s[name] = described_s
            self._told_in_s.append(time.monotonic() - described_s)
            return model
        finally:
            self._described += 1

    async def _renew_client(self) -> None:
        """Connect anew where certificates have changed and the server takes them; until it does, the old ones stay."""
        version = self._tls.version
        if version == self._version:
            return
        client: TritonClient | None = None
        try:
            client = self._connect()
            await client.server_name()
        except AttendantError as error:  # half of the files may be new, or the server does not know them yet
            if version != self._refused:
                _LOG.warning("the certificates in use towards %s stay: %s", self.address, error)
            self._refused = version
            if client is not None:
                await client.__aexit__(None, None, None)
        else:
            self._version = version
            self._replace_client(client)

    def _connect(self) -> TritonClient:
        return TritonClient(self.address, self._timeout_s, tls=self._tls, most_bytes=MOST_BYTES)

    def _replace_client(self, client: TritonClient) -> None:
        # Requests under way end on the former connection, which ends once they have.
        self._former.append((self.client, frozenset(self._requests)))
        self.client = client

    async def _end_former(self) -> None:
        ended = [client for client, requests in self._former if not requests & self._requests]
        self._former = [one for one in self._former if one[0] not in ended]
        for client in ended:
            await client.__aexit__(None, None, None)

    async def _canary(self, model: ServedModel) -> None:
        try:
            verdict = await self._in_time(check_answer(self.client, model), partial(self._answers, model.name))
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

    async def _in_time(self, work: Coroutine[Any, Any, Result], answers: Callable[[], object]) -> Result:
        # Soon, unless requests that are answered meanwhile say that it is busy.
        found, before, left_s = asyncio.ensure_future(work), answers(), self._timeout_s
        try:
            while not await arrives(found, min(CANARY_S, left_s)):
                left_s -= CANARY_S
                if left_s <= 0 or answers() == before:
                    raise LateError(f"an answer of {self.address} to a canary", "none in time", "look at its log")
                before = answers()
            return found.result()
        finally:
            found.cancel()

    def _answers(self, *names: str) -> object:
        # Changes with every answer of these models, or of any: a whole one, or one of the calls of a heavy request.
        names = names or tuple(self._answered.keys() | self.client.answered_s.keys())
        return {name: (self._answered[name], self.client.answered_s.get(name)) for name in names}

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
    return not isinstance(error, ServerError) or isinstance(error, TemplateError)
