"""The only importer of tritonclient's client: asyncio, one stream a request, errors with a remedy."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, cast

import grpc
from numpy.typing import NDArray
from tritonclient.grpc import aio, service_pb2
from tritonclient.utils import InferenceServerException

from attendant.errors import (
    AttendantError,
    BusyError,
    ConfigError,
    ServerError,
    UnknownNameError,
    UnreachableError,
)
from clients.admin_key import AdminKey
from clients.calls import CHANNEL, Calls, RequestStream
from clients.model_control import ModelControl
from clients.request_context import call_timeout_s, headers, request_id
from clients.retry import RetryPolicy, send_beside_cut_texts
from clients.served_model import ServedModel
from clients.silences import LOST_S, Silences, lost, read_health
from clients.statuses import START, error_from, late, reading, require_message
from clients.tensors import create_message, create_tensor, read_response
from clients.tls import Tls

Array = NDArray[Any]
DEFAULT_SERVER = "127.0.0.1:8001"
_INFER = "/inference.GRPCInferenceService/ModelInfer"
RETRIED = (BusyError, UnreachableError)  # the request was not begun


class TritonClient(ModelControl):
    """A connection to a Triton server over gRPC; use it as an asynchronous context manager.

    Attributes:
        server: the address in use.
        timeout_s: longest wait for an answer, and for each response of a stream.
        retry: when a request is sent again.
        answered_s: model → when it last answered, a stream's parts included, by the monotonic clock.
    """

    def __init__(
        self,
        server: str = DEFAULT_SERVER,
        timeout_s: float = 10.0,
        retry: RetryPolicy | None = None,
        tls: Tls | None = None,
        admin_key: AdminKey | None = None,
        most_bytes: int = -1,
    ) -> None:
        """Send nothing yet.

        Args:
            server: host and port of its gRPC endpoint; several, with commas between, are tried in turn.
            timeout_s: longest wait for an answer, and for each response of a stream.
            retry: when a request is sent again; never if not given.
            tls: how the connection is encrypted; not at all if not given.
            admin_key: by which the server lets its models be loaded and unloaded.
            most_bytes: of one answer, or of one response of a stream; -1 for no bound.

        Raises:
            ConfigError: a file of certificates cannot be read, or no time is above 0.
        """
        if not timeout_s > 0:
            raise ConfigError("timeout_s above 0", f"{timeout_s:g}", "allow some seconds")
        self.timeout_s = timeout_s
        self.retry = retry or RetryPolicy()
        self.answered_s: dict[str, float] = {}
        tls = tls or Tls()
        self._credentials = tls.channel_credentials()
        self._options = [*CHANNEL, ("grpc.max_receive_message_length", most_bytes), *tls.channel_options]
        self._addresses = deque(server.split(","))
        self._connections: dict[str, aio.InferenceServerClient] = {}
        self._client = self._connect()
        self._calls = Calls()
        self._silences: defaultdict[tuple[str, str], Silences] = defaultdict(Silences)  # of a server's model
        self._admin = None if admin_key is None else dict(admin_key.grpc_metadata)

    async def __aenter__(self) -> TritonClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._calls.drain()
        for connection in self._connections.values():
            await connection.close()

    @property
    def is_connected(self) -> bool:
        """Whether its connection stands; the next call makes one where not."""
        return self._client._channel.get_state() is grpc.ChannelConnectivity.READY  # tritonclient has no other way

    @property
    def late_calls(self) -> int:
        """How many calls were given up, and have not ended."""
        return self._calls.late

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
        if answer.config.name != name:  # Triton reads a name up to a NUL alone
            raise error_from("NOT_FOUND", "", name, self.server)
        with reading(name, self.server):
            return ServedModel.from_config(name, answer.config)

    async def model_for(self, task: str, name: str | None = None) -> ServedModel:
        """The model to use for a task: the one named, or the only one there is.

        Raises:
            UnknownNameError: there is none, it is for another task, or there is more than one and no name was given.
        """
        if name is not None:
            return (await self.model(name)).require_task(task)
        matching = [model for known in await self.models() if (model := await self.model(known)).is_for(task)]
        if len(matching) != 1:
            names = ", ".join(model.name for model in matching)
            several = f"several models on {self.server} can {task}; name one with --model: {names}"
            none = f"no model on {self.server} can {task}; lay one out and start it: {START}"
            expected, message = f"one model on {self.server} that can {task}", several if matching else none
            raise UnknownNameError(expected, names or "none", "name it with --model", message=message)
        return matching[0]

    async def server_name(self, timeout_s: float | None = None) -> str:
        """What a live server calls itself.

        Args:
            timeout_s: longest wait; the client's if not given.

        Raises:
            UnreachableError: nothing answers.
            LateError: it does not answer in time.
        """
        return str((await self._call(self._client.get_server_metadata(), "", timeout_s or self.timeout_s)).name)

    async def usage(self, model: str) -> tuple[int, int, int]:
        """Requests that a model has answered or failed since it was loaded, batches that it ran, and nanoseconds.

        Raises:
            ServerError: the server does not say.
        """
        said = await self._call(self._client.get_inference_statistics(model), model, self.timeout_s)
        models = require_message(said, self.server).model_stats
        done = [part for one in models for part in (one.inference_stats.success, one.inference_stats.fail)]
        return sum(one.count for one in done), sum(one.execution_count for one in models), sum(one.ns for one in done)

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
        message = await create_message(model, inputs, outputs or (), parameters or {}, request_id.get())

        def call() -> Any:
            infer = self._client._channel.unary_unary(_INFER, None, service_pb2.ModelInferResponse.FromString)
            return infer(message, metadata=tuple((headers.get() or {}).items()))

        answer = await send_beside_cut_texts(lambda: self._call_with_retries(call, model))
        self.answered_s[model] = time.monotonic()
        with reading(model, self.server):
            return await read_response(answer)

    async def stream(
        self,
        model: str,
        inputs: Mapping[str, Array],
        parameters: Mapping[str, Any] | None = None,
        first_timeout_s: float | None = None,
        says_health: bool = False,
    ) -> AsyncGenerator[dict[str, Array], None]:
        """One request to a decoupled model, its responses as they come; leaving the loop early cancels the request.

        It is sent once: only the reader of the responses knows whether another try would be the same request.

        Args:
            model: its name.
            inputs: name → tensor.
            parameters: of the request.
            first_timeout_s: longest wait for the first response, in the queue; as for others if not given.
            says_health: whether the model says in a silence if it knows the request: a dead worker ends no stream.

        Raises:
            InputError: the server refused the tensors.
            BusyError: too many requests wait already.
            DeadlineError: the request's own time was over.
            UnreachableError: nothing answers, the server is stopping, or the worker that had the request is dead.
            ServerError: it failed, or the next response did not come in time.
        """  # tritonserver 2.51 can die of the header triton_grpc_error (docs/log.md): errors come without a status.
        request = {
            "model_name": model,
            "inputs": [create_tensor(name, array) for name, array in inputs.items()],
            "parameters": dict(parameters or {}),
            "enable_empty_final_response": True,
        }
        server, connection = self.server, self._client  # others may connect to the next one meanwhile
        stream = RequestStream(partial(connection.stream_infer, headers=headers.get()), request)
        final, failure = False, cast("AttendantError | None", None)
        timeout_s = first_timeout_s or self.timeout_s
        since_s, silences = time.monotonic(), self._silences[server, model]
        silence, question = silences.begin(stream.key), cast("asyncio.Future[Any] | None", None)
        upcoming = stream.next()
        try:
            while True:
                left_s = timeout_s - (time.monotonic() - since_s)
                wait_s, was_asked = silence.wait_s, silence.is_asked
                if says_health and left_s > wait_s and not await self._calls.arrives(upcoming, wait_s, question):
                    if question is not None and question.done():
                        question = None
                    elif was_asked and silence.is_asked:
                        silence.note_wait(wait_s)
                    if fault := silence.fault:
                        failure = lost(model, server, fault)
                        break
                    if keys := silences.take_question():
                        asked = self._ask_health(stream.ask_health(keys), keys, silences, model, server, connection)
                        question = self._calls.track(asked)
                    continue
                response = await self._call(upcoming, model, max(0.0, left_s), timeout_s, server)
                if response is None:
                    break
                result, error = response
                upcoming = stream.next()
                if error is not None:
                    failure = error_from(str(error.status() or ""), str(error.message()), model, server)
                    stream.complete()
                    continue
                answer = result.get_response()
                silence.end()
                self.answered_s[model] = silence.heard_s
                was_final, final = final, final or answer.parameters["triton_final_response"].bool_param
                if final:
                    stream.complete()
                if answer.outputs or final != was_final:
                    since_s, timeout_s = silence.heard_s, self.timeout_s
                elif silence.heard_s - since_s > timeout_s:
                    raise ServerError(f"an answer within {timeout_s:g} s", "empty responses", "ask another server")
                if answer.outputs:
                    with reading(model, server):
                        outputs = await read_response(answer)
                    yield outputs
                    silence.end()  # who reads it may have taken any time
        finally:
            silences.end(silence)
            self._calls.abandon(stream.cancel())
        if failure is not None:
            raise failure
        if not final:
            raise ServerError("a final response", "the stream ended without one", "look at the server's log")

    async def wait_before_retry(self, error: AttendantError, asked: Sequence[str], ends_s: float | None = None) -> None:
        """Wait before a request is sent again, and connect to the next address if the last one gave no answer.

        Args:
            error: that the request met.
            asked: the addresses that it was sent to, one for each time.
            ends_s: when its time is over, by the monotonic clock.

        Raises:
            AttendantError: the error, where policy, kind or time forbids another try, and every address was asked.
        """
        tries, addresses = len(asked), len(self._addresses)
        pause_s = self.retry.pause_after(tries) if isinstance(error, RETRIED) else None
        if isinstance(error, UnreachableError) and len({*asked}) < addresses and tries < 2 * addresses:
            pause_s = 0.0  # each address is asked once in any case
        if pause_s is None or (ends_s is not None and time.monotonic() + pause_s >= ends_s):
            raise error
        if isinstance(error, UnreachableError) and asked[-1] == self.server:  # else another request went on already
            self._addresses.rotate(-1)
            self._client = self._connect()  # the last connection may still carry others' requests
        await asyncio.sleep(pause_s)

    def _connect(self) -> aio.InferenceServerClient:
        self.server = address = self._addresses[0]
        if address not in self._connections:
            made = aio.InferenceServerClient(address, creds=self._credentials, channel_args=self._options)
            self._connections[address] = made
        return self._connections[address]

    async def _call_with_retries(self, start: Callable[[], Any], model: str = "") -> Any:
        asked = list[str]()
        while True:
            asked.append(self.server)
            try:
                answer = await self._call(start(), model, min(self.timeout_s, call_timeout_s.get()))
                return require_message(answer, self.server)
            except RETRIED as error:
                await self.wait_before_retry(error, asked)

    async def _ask_health(
        self, question: RequestStream, keys: list[str], silences: Silences, model: str, server: str, connection: Any
    ) -> None:
        try:  # a server that is stopping refuses all that is new, and answers what it has
            if (response := await self._call(question.next(), model, LOST_S, server=server)) is None:
                return
            result, error = response
            if error is None:
                with reading(model, server):
                    silences.note_answer(keys, read_health(result))
                return
            failure = error_from(str(error.status() or ""), str(error.message()), model, server)
            is_live = False
            with suppress(AttendantError):  # it is stopping, or too far away to say that it goes on
                is_live = await self._call(connection.is_server_live(), "", LOST_S, server=server)
            silences.note_refusal(keys, str(failure) if is_live else "")
        except AttendantError:  # no answer came, which the silence tells
            return
        finally:
            self._calls.abandon(question.read())

    async def _call(
        self, call: Any, model: str, left_s: float, timeout_s: float | None = None, server: str = ""
    ) -> Any:
        server = server or self.server  # by the end, another may be in use
        timeout_s = left_s if timeout_s is None else timeout_s  # what is left may be less than the user gave
        try:
            return await self._calls.wait(call, left_s)
        except InferenceServerException as error:
            raise error_from(str(error.status() or ""), str(error.message()), model, server) from error
        except grpc.aio.AioRpcError as error:  # a broken stream raises it where a call raises the exception above
            raise error_from(str(error.code()), str(error.details()), model, server) from error
        except AttributeError:  # of what tritonclient's stream was given
            return require_message(None, server)
        except TimeoutError as error:
            raise late(model or server, timeout_s) from error
