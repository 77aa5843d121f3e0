"""The only importer of tritonclient's client API: asyncio, one stream a request, errors with a remedy."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from types import TracebackType
from typing import Any

import grpc
import numpy as np
from numpy.typing import NDArray
from tritonclient.grpc import aio
from tritonclient.grpc.aio import InferInput, InferRequestedOutput
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from clients.request_stream import RequestStream
from clients.served_model import ServedModel
from models.errors import AttendantError, InputError, ServerError, UnknownNameError, UnreachableError

Array = NDArray[Any]
DEFAULT_SERVER = "127.0.0.1:8001"
LATE_CALLS_S = 2.0  # what a call that was given up may still take when the connection closes


class TritonClient:
    """A connection to one Triton server over gRPC; use it as an asynchronous context manager."""

    def __init__(self, server: str = DEFAULT_SERVER, timeout_s: float = 10.0) -> None:
        """Remember where the server is; nothing is sent yet.

        Args:
            server: host and port of its gRPC endpoint.
            timeout_s: longest wait for an answer, and for each response of a stream.
        """
        self.server = server
        self.timeout_s = timeout_s
        self._client = aio.InferenceServerClient(server)
        self._running: set[asyncio.Future[Any]] = set()

    async def __aenter__(self) -> TritonClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._running:
            await asyncio.wait(self._running, timeout=LATE_CALLS_S)
        await self._client.close()

    async def models(self) -> list[str]:
        """The names of the models that the server has loaded.

        Raises:
            UnreachableError: nothing answers.
        """
        index = await self._ask(self._client.get_model_repository_index())
        return sorted({model.name for model in index.models if model.state == "READY"})

    async def model(self, name: str) -> ServedModel:
        """What the server says of a model.

        Raises:
            UnknownNameError: it serves no model of that name.
        """
        answer = await self._ask(self._client.get_model_config(name), name)
        return ServedModel.from_config(name, answer.config)

    async def model_for(self, task: str, name: str | None = None) -> ServedModel:
        """The model to use for a task: the one named, or the only one there is.

        Raises:
            UnknownNameError: there is none, it is for another task, or there is more than one and no name was given.
        """
        if name is not None:
            return (await self.model(name)).require_task(task)
        served = [await self.model(known) for known in await self.models()]
        fitting = [model for model in served if model.task == task]
        if len(fitting) != 1:
            raise UnknownNameError(
                f"one model on {self.server} that can {task}",
                str([model.name for model in fitting] or "none"),
                "name it with --model" if fitting else f"lay one out and start it: {_START}",
            )
        return fitting[0]

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
            outputs: the names of those that are wanted; all of them if not given.
            parameters: of the request.

        Raises:
            InputError: the server refused the tensors.
            ServerError: it failed, or did not answer in time.
        """
        tensors = [_tensor(name, array) for name, array in inputs.items()]
        wanted = None if outputs is None else [InferRequestedOutput(name) for name in outputs]
        call = self._client.infer(model, tensors, outputs=wanted, parameters=dict(parameters or {}))
        return _arrays(await self._ask(call, model))

    async def stream(
        self, model: str, inputs: Mapping[str, Array], parameters: Mapping[str, Any] | None = None
    ) -> AsyncGenerator[dict[str, Array], None]:
        """One request to a decoupled model, its responses as they come; leaving the loop early takes the request back.

        Args:
            model: its name.
            inputs: name → tensor.
            parameters: of the request.

        Raises:
            InputError: the server refused the tensors.
            ServerError: it failed, or the next response did not come in time.
        """
        # tritonserver 2.51 can die of the header triton_grpc_error (docs/log.md): errors come without a status.
        tensors = [_tensor(name, array) for name, array in inputs.items()]
        stream = RequestStream(self._client.stream_infer, _request(model, tensors, dict(parameters or {})))
        final = False
        failure: AttendantError | None = None
        try:
            while (response := await self._ask(stream.next(), model)) is not None:
                result, error = response
                if error is not None:
                    failure = self._translated(str(error.status() or ""), str(error.message()), model)
                    stream.complete()
                    continue
                final = result.get_response().parameters["triton_final_response"].bool_param
                if final:
                    stream.complete()
                if result.get_response().outputs:
                    yield _arrays(result)
        finally:
            self._track(stream.leave())
        if failure is not None:
            raise failure
        if not final:
            raise ServerError("a final response", "the stream ended without one", "look at the server's log")

    async def _ask(self, call: Any, model: str = "") -> Any:
        try:
            return await self._in_time(call)
        except InferenceServerException as error:
            raise self._translated(str(error.status() or ""), str(error.message()), model) from error
        except grpc.aio.AioRpcError as error:  # a broken stream raises it where a call raises the exception above
            raise self._translated(str(error.code()), str(error.details()), model) from error
        except TimeoutError as error:
            raise self._late(model) from error

    async def _in_time(self, call: Any) -> Any:
        # A unary call that is late is left to itself, and never cancelled or given a deadline: one in some hundred
        # cancelled calls kills tritonserver 2.51 with a segmentation fault (docs/log.md).
        future = self._track(call)
        done, _ = await asyncio.wait({future}, timeout=self.timeout_s)
        if not done:
            raise TimeoutError
        return future.result()

    def _track(self, call: Any) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.ensure_future(call)
        self._running.add(future)
        future.add_done_callback(self._ended)
        return future

    def _ended(self, future: asyncio.Future[Any]) -> None:
        self._running.discard(future)
        if not future.cancelled():
            future.exception()  # seen, so that asyncio does not complain of a late call's error

    def _translated(self, status: str, message: str, model: str) -> AttendantError:
        if "DEADLINE_EXCEEDED" in status:
            return self._late(model)
        if "UNAVAILABLE" in status and re.search("failed to connect|errors resolving", message, re.IGNORECASE):
            return UnreachableError(f"a Triton server at {self.server}", "no answer", f"start it: {_START}")
        if "NOT_FOUND" in status or "unknown model" in message:
            return UnknownNameError(
                f"a model that {self.server} serves", repr(model), "list them with `python -m clients health`"
            )
        if "INVALID_ARG" in status or (not status and _REFUSED.search(message)):
            return InputError(f"a request that {model!r} takes", _REFUSED.sub("", message), "correct the request")
        return ServerError(
            f"an answer from {model or self.server!r}", f"{status} {message}".strip(), "look at the server's log"
        )

    def _late(self, model: str) -> ServerError:
        return ServerError(
            f"an answer from {model or self.server!r} within {self.timeout_s:g} s",
            "none",
            "see `python -m clients health`; a dead worker answers nothing",
        )


_START = "`python -m serving up`"
# On a stream an error is a text without a status: our backends begin a refusal with its code (serving/backends/
# triton_api.py); Triton's own checks of a request's tensors can only be known by their wording.
_REFUSED = re.compile(r"^INVALID_ARG: |(?=unexpected shape for input|inference input|expected \d+ inputs)")


def _request(model: str, tensors: list[Any], parameters: dict[str, Any]) -> dict[str, Any]:
    return {
        "model_name": model,
        "inputs": tensors,
        "parameters": parameters,
        "enable_empty_final_response": True,
    }


def _tensor(name: str, array: Array) -> Any:
    tensor = InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
    tensor.set_data_from_numpy(np.ascontiguousarray(array))
    return tensor


def _arrays(result: Any) -> dict[str, Array]:
    return {output.name: result.as_numpy(output.name) for output in result.get_response().outputs}
