"""Clients that send requests while faults are tried, and record all that comes back."""

import asyncio
import itertools
import json
import random
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import aiohttp
import grpc
import numpy as np
from tritonclient.grpc import aio
from tritonclient.grpc.aio import InferInput
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from attendant.errors import AttendantError, LateError
from attendant.tensor_names import CANDIDATE, LOGITS, OUTPUT_IDS, TEXT_OUTPUT
from benchmarks.chaos.history import HistoryWriter
from benchmarks.chaos.inputs import Input
from benchmarks.chaos.scenario import Traffic
from clients.answer import Delta
from clients.calls import RequestStream
from clients.statuses import error_from
from clients.triton_client import TritonClient

GIVE_UP_S = 12.0
"""After so long a silence a client records that it is silent, and asks again."""
REFUSED_PAUSE_S = 0.1
_CHANNEL = [
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 200),
    ("grpc.use_local_subchannel_pool", 1),
]
_numbers = itertools.count()


@dataclass(slots=True)
class Clients:
    """The clients of one traffic.

    Attributes:
        stopping: set when no more requests are to be sent.
    """

    name: str
    traffic: Traffic
    inputs: Mapping[str, Sequence[Input]]
    history: HistoryWriter
    grpc: str
    gateway: str
    seed: int
    stopping: asyncio.Event
    _late: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self) -> None:
        """Send until stopped; every request that was sent has then ended, or was given up."""
        await asyncio.gather(*(self._client(number) for number in range(self.traffic.clients)))

    async def _client(self, number: int) -> None:
        rng = random.Random(f"{self.seed} {self.name} {number}")  # noqa: S311  no secret  # nosec B311
        if self.traffic.via == "grpc":
            client = aio.InferenceServerClient(self.grpc, channel_args=_CHANNEL)
            send = partial(self._send_grpc, client)
            close = client.close
        elif self.traffic.via == "client":
            own = await TritonClient(self.grpc, timeout_s=GIVE_UP_S).__aenter__()
            send, close = partial(self._send_client, own), partial(own.__aexit__, None, None, None)
        else:
            timeout = aiohttp.ClientTimeout(total=None, sock_read=GIVE_UP_S, sock_connect=GIVE_UP_S)
            session = aiohttp.ClientSession(f"http://{self.gateway}", timeout=timeout)
            send, close = partial(self._send_gateway, session), session.close
        try:
            while not self.stopping.is_set():
                one = rng.choice(self.inputs[rng.choice(self.traffic.kinds)])
                how = await self._exchange(send, f"{self.name} {number}", one)
                pause_s = self.traffic.pause_s if how == "ok" else max(self.traffic.pause_s, REFUSED_PAUSE_S)
                await asyncio.sleep(pause_s * rng.uniform(0.5, 1.5))
        finally:
            await asyncio.wait_for(close(), 5)

    async def _exchange(self, send: Any, client: str, one: Input) -> str:
        request = f"r{next(_numbers)}"
        self.history.record(
            "sent",
            request=request,
            client=client,
            traffic=self.name,
            model=one.model,
            input=one.name,
            via=self.traffic.via,
            stream=self.traffic.stream,
            bare=self.traffic.via == "grpc" and one.kind != "classify",
        )
        how, code, message = "silent", "", ""
        try:
            how, code, message = await send(request, one)
        except TimeoutError:
            how = "silent"
        except LateError as error:
            how, code, message = "silent", error.code, str(error)
        except AttendantError as error:
            how, code, message = "error", error.code, str(error)
        except InferenceServerException as error:
            how, code, message = self._failure(one.model, error)
        except grpc.aio.AioRpcError as error:
            how, code, message = "transport", error.code().name, str(error.details())
        except aiohttp.ClientError as error:
            how, code, message = "transport", type(error).__name__, str(error)
        self.history.record("end", request=request, how=how, code=code, message=message[:300])
        return how

    async def _send_client(self, client: TritonClient, request: str, one: Input) -> tuple[str, str, str]:
        if one.kind == "classify":
            outputs = await client.infer(one.model, one.tensors)
            label = int(outputs[LOGITS][0].argmax())
            self.history.record("response", request=request, candidate=0, tokens=[label], text=None)
            return "ok", "", ""
        async with aclosing(client.stream(one.model, one.tensors, says_health=True)) as responses:
            async for outputs in responses:
                delta = Delta.of(outputs)
                tokens = list(delta.token_ids)
                self.history.record(
                    "response", request=request, candidate=delta.candidate, tokens=tokens, text=delta.text
                )
        return "ok", "", ""

    def _failure(self, model: str, error: Any) -> tuple[str, str, str]:
        status, message = str(error.status() or ""), str(error.message())
        found = error_from(status, message, model, self.grpc)
        is_transport = "UNAVAILABLE" in status and not message.startswith(("{", "[request id"))
        return "transport" if is_transport else "error", found.code, message

    async def _send_grpc(self, client: Any, request: str, one: Input) -> tuple[str, str, str]:
        inputs = []
        for name, array in one.tensors.items():
            inputs.append(InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype)))
            inputs[-1].set_data_from_numpy(np.ascontiguousarray(array))
        if one.kind == "classify":
            call = asyncio.ensure_future(client.infer(one.model, inputs, request_id=request))
            done, _ = await asyncio.wait({call}, timeout=GIVE_UP_S)  # a call is never cancelled: Triton 2.51 may die
            if not done:
                call.add_done_callback(lambda future: future.cancelled() or future.exception())
                raise TimeoutError
            result = call.result()
            label = int(result.as_numpy(LOGITS)[0].argmax())
            answer_to = result.get_response().id
            self.history.record("response", request=request, candidate=0, tokens=[label], text=None, id=answer_to)
            return "ok", "", ""
        return await self._send_stream(client, request, one, inputs)

    async def _send_stream(self, client: Any, request: str, one: Input, inputs: Any) -> tuple[str, str, str]:
        keywords = {"model_name": one.model, "inputs": inputs, "parameters": {}, "enable_empty_final_response": True}
        stream = RequestStream(client.stream_infer, keywords)
        try:
            outcome = await self._read_stream(stream, request, one)
        except TimeoutError:
            self._forget(stream)
            raise
        except Exception:
            stream.complete()  # also a stream that broke waits for its next request until it is told
            raise
        stream.complete()
        return outcome

    async def _read_stream(self, stream: RequestStream, request: str, one: Input) -> tuple[str, str, str]:
        final = False
        outcome = ("cut", "", "the stream ended without a final response")
        while True:
            following = stream.next()
            done, _ = await asyncio.wait({following}, timeout=GIVE_UP_S)
            if not done:
                raise TimeoutError
            if (response := following.result()) is None:
                return outcome
            result, error = response
            if error is not None:
                outcome = self._failure(one.model, error)
                stream.complete()
                continue
            message = result.get_response()
            if message.outputs:
                self.history.record(
                    "response",
                    request=request,
                    candidate=int(result.as_numpy(CANDIDATE).item()),
                    tokens=result.as_numpy(OUTPUT_IDS).reshape(-1).tolist(),
                    text=result.as_numpy(TEXT_OUTPUT).reshape(-1)[0].decode(),
                    late=final,
                )
            if message.parameters["triton_final_response"].bool_param:
                final, outcome = True, ("ok", "", "")
                stream.complete()

    def _forget(self, stream: RequestStream) -> None:
        """Cancel a silent stream, and read what still comes, for a while."""

        async def cancel() -> None:
            try:
                await asyncio.wait_for(stream.cancel(), 2 * GIVE_UP_S)
            except Exception:
                return

        task = asyncio.create_task(cancel())
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def _send_gateway(self, session: Any, request: str, one: Input) -> tuple[str, str, str]:
        stream = self.traffic.stream and one.kind != "classify"
        body = dict(one.body) | ({} if one.kind == "classify" else {"stream": stream})
        async with session.post(one.path, json=body) as response:
            if response.status != 200:
                return _http_failure(response.status, await response.text())
            try:
                if not stream:
                    return self._read_whole(request, one, await response.json())
                return await self._read_events(request, response)
            except aiohttp.ClientError as error:
                return "cut", type(error).__name__, str(error)

    def _read_whole(self, request: str, one: Input, answer: Any) -> tuple[str, str, str]:
        if one.kind == "classify":
            texts = [answer["labels"][0]["label"]]
        else:
            texts = [choice["text"] for choice in answer.get("choices") or answer["answers"]]
        for candidate, text in enumerate(texts):
            self.history.record("response", request=request, candidate=candidate, tokens=None, text=text)
        return "ok", "", ""

    async def _read_events(self, request: str, response: Any) -> tuple[str, str, str]:
        failure: tuple[str, str, str] | None = None
        ended = False
        async for line in response.content:
            if line.startswith(b":"):
                self.history.record("response", request=request, alive=True)
            if not line.startswith(b"data: "):
                continue
            data = line[6:].strip()
            if data == b"[DONE]":
                ended = True
                continue
            event = json.loads(data)
            if "error" in event:
                failure = ("error", str(event["error"]["code"]), str(event["error"]["message"]))
                continue
            for choice in event.get("choices", ()):
                self.history.record(
                    "response",
                    request=request,
                    candidate=choice["index"],
                    tokens=None,
                    text=choice["text"],
                    late=ended or failure is not None,
                )
        return failure or (("ok", "", "") if ended else ("cut", "", "the events ended without [DONE]"))


def _http_failure(status: int, text: str) -> tuple[str, str, str]:
    try:
        error = json.loads(text)["error"]
    except (ValueError, KeyError, TypeError):
        return "transport", f"HTTP {status}", text
    return "error", str(error["code"]), f"HTTP {status}: {error['message']}"
