"""The only importer of tritonclient's client API: asyncio, one stream a request, errors with a remedy."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tritonclient.grpc import aio
from tritonclient.grpc.aio import InferInput
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from models.errors import AttendantError, InputError, ServerError, UnknownNameError, UnreachableError

Array = NDArray[Any]
DEFAULT_SERVER = "127.0.0.1:8001"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """What a server says of one model.

    Attributes:
        name: as in the repository.
        decoupled: whether a request gets a stream of responses.
        inputs: input name → dimensions without the batch.
        parameters: what the manifest left in the configuration: task, example, labels, preprocessing, lengths.
    """

    name: str
    decoupled: bool
    inputs: dict[str, tuple[int, ...]]
    parameters: dict[str, Any]

    @property
    def task(self) -> str:
        """What the model is for; empty for a model that Attendant did not lay out."""
        return str(self.parameters.get("task", ""))


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

    async def __aenter__(self) -> TritonClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.close()

    async def models(self) -> list[str]:
        """The names of the models that the server has loaded.

        Raises:
            UnreachableError: nothing answers.
        """
        index = await self._ask(self._client.get_model_repository_index(client_timeout=self.timeout_s))
        return sorted({model.name for model in index.models if model.state == "READY"})

    async def model(self, name: str) -> ServedModel:
        """What the server says of a model.

        Raises:
            UnknownNameError: it serves no model of that name.
        """
        answer = await self._ask(self._client.get_model_config(name, client_timeout=self.timeout_s), name)
        config = answer.config
        return ServedModel(
            name=name,
            decoupled=config.model_transaction_policy.decoupled,
            inputs={tensor.name: tuple(tensor.dims) for tensor in config.input},
            parameters={key: _parsed(value.string_value) for key, value in config.parameters.items()},
        )

    async def model_for(self, task: str, name: str | None = None) -> ServedModel:
        """The model to use for a task: the one named, or the only one there is.

        Raises:
            UnknownNameError: there is none, or more than one and no name was given.
        """
        if name is not None:
            return await self.model(name)
        served = [await self.model(known) for known in await self.models()]
        fitting = [model for model in served if model.task == task]
        if len(fitting) != 1:
            raise UnknownNameError(
                f"one model on {self.server} that can {task}",
                str([model.name for model in fitting] or "none"),
                "name it with --model" if fitting else f"lay one out and start it: {_START}",
            )
        return fitting[0]

    async def infer(self, model: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """One request, one response.

        Raises:
            InputError: the server refused the tensors.
            ServerError: it failed, or did not answer in time.
        """
        tensors = [_tensor(name, array) for name, array in inputs.items()]
        call = self._client.infer(model, tensors, client_timeout=self.timeout_s)
        return _arrays(await self._ask(call, model))

    async def stream(self, model: str, inputs: Mapping[str, Array]) -> AsyncIterator[dict[str, Array]]:
        """One request to a decoupled model, its responses as they come; leaving the loop early cancels the request.

        Raises:
            InputError: the server refused the tensors.
            ServerError: it failed, or the next response did not come in time.
        """
        responses = self._client.stream_infer(
            _one_request(model, [_tensor(name, array) for name, array in inputs.items()]),
            headers={"triton_grpc_error": "true"},
        )
        try:
            while True:
                result, error = await self._ask(asyncio.wait_for(anext(responses), self.timeout_s), model)
                if error is not None:
                    raise self._translated(error, model)
                if result.get_response().outputs:
                    yield _arrays(result)
                if result.get_response().parameters["triton_final_response"].bool_param:
                    return
        finally:
            responses.cancel()

    async def _ask(self, call: Any, model: str = "") -> Any:
        try:
            return await call
        except InferenceServerException as error:
            raise self._translated(error, model) from error
        except StopAsyncIteration as error:
            raise ServerError("a final response", "the stream ended without one", "look at the server's log") from error
        except TimeoutError as error:
            raise self._late(model) from error

    def _translated(self, error: InferenceServerException, model: str) -> AttendantError:
        status, message = str(error.status() or ""), str(error.message())
        if "DEADLINE_EXCEEDED" in status:
            return self._late(model)
        if "UNAVAILABLE" in status and "failed to connect" in message.lower():
            return UnreachableError(f"a Triton server at {self.server}", "no answer", f"start it: {_START}")
        if "NOT_FOUND" in status or "unknown model" in message:
            return UnknownNameError(
                f"a model that {self.server} serves", repr(model), "list them with `python -m clients health`"
            )
        if "INVALID_ARG" in status:
            return InputError(f"a request that {model!r} takes", _unwrapped(message), "correct the request")
        return ServerError(
            f"an answer from {model or self.server!r}", f"{status} {message}", "look at the server's log"
        )

    def _late(self, model: str) -> ServerError:
        return ServerError(
            f"an answer from {model or self.server!r} within {self.timeout_s:g} s",
            "none",
            "see `python -m clients health`; a dead worker answers nothing",
        )


_START = "`python -m serving up`"


async def _one_request(model: str, tensors: list[Any]) -> AsyncIterator[dict[str, Any]]:
    yield {"model_name": model, "inputs": tensors, "enable_empty_final_response": True}


def _tensor(name: str, array: Array) -> Any:
    tensor = InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
    tensor.set_data_from_numpy(np.ascontiguousarray(array))
    return tensor


def _arrays(result: Any) -> dict[str, Array]:
    return {output.name: result.as_numpy(output.name) for output in result.get_response().outputs}


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _unwrapped(message: str) -> str:
    return message.removeprefix("[StatusCode.INVALID_ARGUMENT] ").strip()
