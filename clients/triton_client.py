"""The only importer of tritonclient's client API: asyncio, one stream a request, errors with a remedy."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any

import grpc
import numpy as np
from numpy.typing import NDArray
from tritonclient.grpc import aio
from tritonclient.grpc.aio import InferInput, InferRequestedOutput
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from attendant.errors import (
    AttendantError,
    BusyError,
    ConfigError,
    LateError,
    ServerError,
    UnknownNameError,
    UnreachableError,
)
from clients.calls import Calls, RequestStream
from clients.request_context import headers, request_id
from clients.served_model import ServedModel
from clients.statuses import START, error_from
from clients.tls import Tls

GROWTH = 2.0
_MOST_DOUBLINGS = 1000  # a float has no more: a longer pause than any


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often a request is sent, and how long to wait in between: a random part of a pause that doubles.

    Attributes:
        tries: at most; 1 sends nothing twice.
        pause_s: longest wait before the second try.
        longest_pause_s: longest wait before any.

    Raises:
        ConfigError: there is not even one try, or a pause is negative.

    Source: M. Brooker, "Exponential backoff and jitter", AWS Architecture Blog, 2015 (full jitter).
    """

    tries: int = 1
    pause_s: float = 0.1
    longest_pause_s: float = 5.0

    def __post_init__(self) -> None:
        for name, least in (("tries", 1), ("pause_s", 0), ("longest_pause_s", 0)):
            if not getattr(self, name) >= least:
                raise ConfigError(f"{name} of at least {least}", str(getattr(self, name)), f"correct {name}")

    def pause_after(self, tries: int) -> float | None:
        """How long to wait after so many tries, in seconds; None if there is to be no other."""
        if tries >= self.tries:
            return None
        doublings = min(tries - 1, _MOST_DOUBLINGS)
        return random.uniform(0, min(self.longest_pause_s, self.pause_s * GROWTH**doublings))  # noqa: S311 a pause, no secret # nosec B311


Array = NDArray[Any]
DEFAULT_SERVER = "127.0.0.1:8001"
_CHANNEL = [
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # A server that comes back is found within a second, and not within two minutes, whatever another client met there.
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.use_local_subchannel_pool", 1),
]
RETRIED = (BusyError, UnreachableError)  # the request was not begun


class TritonClient:
    """A connection to a Triton server over gRPC; use it as an asynchronous context manager.

    Attributes:
        server: the address in use.
        timeout_s: longest wait for an answer, and for each response of a stream.
        retry: when a request is sent again.
    """

    def __init__(
        self,
        server: str = DEFAULT_SERVER,
        timeout_s: float = 10.0,
        retry: RetryPolicy | None = None,
        tls: Tls | None = None,
    ) -> None:
        """Send nothing yet.

        Args:
            server: host and port of its gRPC endpoint; several, with commas between, are tried in turn.
            timeout_s: longest wait for an answer, and for each response of a stream.
            retry: when a request is sent again; never if not given.
            tls: how the connection is encrypted; not at all if not given.

        Raises:
            ConfigError: a file of certificates cannot be read.
        """
        self.timeout_s = timeout_s
        self.retry = retry or RetryPolicy()
        tls = tls or Tls()
        self._credentials, self._options = tls.channel_credentials(), [*_CHANNEL, *tls.channel_options]
        self._addresses = deque(server.split(","))
        self._connections: list[aio.InferenceServerClient] = []
        self._client = self._connect()
        self._calls = Calls()

    async def __aenter__(self) -> TritonClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._calls.drain()
        for connection in self._connections:
            await connection.close()

    async def models(self) -> list[str]:
        """The names of the models that the server has loaded.

        Raises:
            UnreachableError: nothing answers.
        """
        # Not by the repository's index: for that a server of ours wants its admin key.
        found = await self._call_with_retries(lambda: self._client.get_inference_statistics())
        return sorted({model.name for model in found.model_stats})

    async def model(self, name: str) -> ServedModel:
        """What the server says of a model.

        Raises:
            UnknownNameError: it serves no model of that name.
        """
        answer = await self._call_with_retries(lambda: self._client.get_model_config(name), name)
        return ServedModel.from_config(name, answer.config)

    async def model_for(self, task: str, name: str | None = None) -> ServedModel:
        """The model to use for a task: the one named, or the only one there is.

        Raises:
            UnknownNameError: there is none, it is for another task, or there is more than one and no name was given.
        """
        if name is not None:
            return (await self.model(name)).require_task(task)
        served = [await self.model(known) for known in await self.models()]
        matching = [model for model in served if model.is_for(task)]
        if len(matching) != 1:
            names = ", ".join(model.name for model in matching)
            message = (
                f"several models on {self.server} can {task}; name one with --model: {names}"
                if matching
                else f"no model on {self.server} can {task}; lay one out and start it: {START}"
            )
            raise UnknownNameError(
                f"one model on {self.server} that can {task}", names or "none", "name it with --model", message=message
            )
        return matching[0]

    async def infer(
        self,
        model: str,
        inputs: Mapping[str, Array],
        outputs: Sequence[str] | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> dict[str, Array]:
        """One request, one response.

        Args:
            model: its name.
            inputs: name → tensor.
            outputs: the names of those to return; all of them if not given.
            parameters: of the request.

        Raises:
            InputError: the server refused the tensors.
            ServerError: it failed, or did not answer in time.
        """
        tensors = [_create_tensor(name, array) for name, array in inputs.items()]
        requested = None if outputs is None else [InferRequestedOutput(name) for name in outputs]

        def call() -> Any:
            return self._client.infer(
                model,
                tensors,
                outputs=requested,
                request_id=request_id.get(),
                headers=headers.get(),
                parameters=dict(parameters or {}),
            )

        return _read_arrays(await self._call_with_retries(call, model))

    async def stream(
        self,
        model: str,
        inputs: Mapping[str, Array],
        parameters: Mapping[str, Any] | None = None,
        first_timeout_s: float | None = None,
    ) -> AsyncGenerator[dict[str, Array], None]:
        """One request to a decoupled model, its responses as they come; leaving the loop early cancels the request.

        It is sent once: only the reader of the responses knows whether another try would be the same request.

        Args:
            model: its name.
            inputs: name → tensor.
            parameters: of the request.
            first_timeout_s: longest wait for the first response, behind the queue; as for others if not given.

        Raises:
            InputError: the server refused the tensors.
            BusyError: too many requests wait already.
            DeadlineError: the request's own time was over.
            UnreachableError: nothing answers, or the server is stopping.
            ServerError: it failed, or the next response did not come in time.
        """
        # tritonserver 2.51 can die of the header triton_grpc_error (docs/log.md): errors come without a status.
        tensors = [_create_tensor(name, array) for name, array in inputs.items()]
        start = partial(self._client.stream_infer, headers=headers.get())
        request = {
            "model_name": model,
            "inputs": tensors,
            "parameters": dict(parameters or {}),
            "enable_empty_final_response": True,
        }
        stream = RequestStream(start, request)
        final = False
        failure: AttendantError | None = None
        timeout_s = first_timeout_s or self.timeout_s
        try:
            while (response := await self._call(stream.next(), model, timeout_s)) is not None:
                timeout_s = self.timeout_s
                result, error = response
                if error is not None:
                    failure = error_from(str(error.status() or ""), str(error.message()), model, self.server)
                    stream.complete()
                    continue
                final = result.get_response().parameters["triton_final_response"].bool_param
                if final:
                    stream.complete()
                if result.get_response().outputs:
                    yield _read_arrays(result)
        finally:
            self._calls.track(stream.cancel())
        if failure is not None:
            raise failure
        if not final:
            raise ServerError("a final response", "the stream ended without one", "look at the server's log")

    async def wait_before_retry(self, error: AttendantError, tries: int, ends_s: float | None = None) -> None:
        """Wait before a request is sent again, and connect to the next address if the last one gave no answer.

        Args:
            error: that the request met.
            tries: how often it was sent.
            ends_s: when its time is over, by the monotonic clock.

        Raises:
            AttendantError: the error, where the policy, its kind or the time forbids another try.
        """
        pause_s = self.retry.pause_after(tries) if isinstance(error, RETRIED) else None
        if pause_s is None or (ends_s is not None and time.monotonic() + pause_s >= ends_s):
            raise error
        if isinstance(error, UnreachableError):
            self._addresses.rotate(-1)
            self._client = self._connect()  # the old connection may still carry others' requests
        await asyncio.sleep(pause_s)

    def _connect(self) -> aio.InferenceServerClient:
        self.server = self._addresses[0]
        connection = aio.InferenceServerClient(self.server, creds=self._credentials, channel_args=self._options)
        self._connections.append(connection)
        return connection

    async def _call_with_retries(self, start: Callable[[], Any], model: str = "") -> Any:
        tries = 0
        while True:
            tries += 1
            try:
                return await self._call(start(), model, self.timeout_s)
            except RETRIED as error:
                await self.wait_before_retry(error, tries)

    async def _call(self, call: Any, model: str, timeout_s: float) -> Any:
        try:
            return await self._calls.wait(call, timeout_s)
        except InferenceServerException as error:
            raise error_from(str(error.status() or ""), str(error.message()), model, self.server) from error
        except grpc.aio.AioRpcError as error:  # a broken stream raises it where a call raises the exception above
            raise error_from(str(error.code()), str(error.details()), model, self.server) from error
        except TimeoutError as error:
            raise LateError(
                f"an answer from {model or self.server!r} within {timeout_s:g} s",
                "none",
                "see `attendant health`; a dead worker answers nothing",
            ) from error


def _create_tensor(name: str, array: Array) -> Any:
    tensor = InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
    tensor.set_data_from_numpy(np.ascontiguousarray(array))
    return tensor


def _read_arrays(result: Any) -> dict[str, Array]:
    return {output.name: result.as_numpy(output.name) for output in result.get_response().outputs}
