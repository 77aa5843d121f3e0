"""Clients that behave badly, in a process of their own, which is killed in the end.

    python -m benchmarks.chaos.bad_clients <kind> <count> <grpc> <gateway> <target>

killed      streams of both transports that are open when the process is killed
never-reads streams through the gateway whose bytes are never read; and gRPC streams of a process that stops itself
half-open   connections on which nothing is sent, or half a preface, or half a header
malformed   bytes that are no protocol, wrong shapes, unknown models, no JSON
cancel      streams that are cancelled after their first token, again and again
flood       more requests at once than the queue holds
huge        texts of a megabyte, JSON nested ten thousand deep
reset       connections that are reset in the midst of a request
churn       connections that are opened and closed
"""

import argparse
import asyncio
import json
import os
import signal
import socket
import struct
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import numpy as np
from tritonclient.grpc import aio
from tritonclient.grpc.aio import InferInput
from tritonclient.utils import np_to_triton_dtype

from attendant.sampling_params import SamplingParams
from attendant.sampling_tensors import prompt_tensors, tensors_of
from attendant.tensor_names import STREAM
from clients.calls import RequestStream

LONG = SamplingParams(max_tokens=200, ignore_eos=True)
TEXT = "Return a list of"
LINGER_NONE = struct.pack("ii", 1, 0)
MEGABYTE = 1_000_000
DEPTH = 10_000
IN_FLIGHT = 32


class BadClients:
    """So many of them, against one server."""

    def __init__(self, count: int, grpc: str, gateway: str, target: str) -> None:
        self.count, self.grpc, self.target = count, grpc, target or "stdlib-lm"
        host, _, port = gateway.rpartition(":")
        self.gateway = (host, int(port))
        self._kept: list[Any] = []

    def connect(self, to_gateway: bool = True, receive_bytes: int = 0) -> socket.socket:
        connection = socket.socket()
        if receive_bytes:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        host, _, port = self.grpc.rpartition(":")
        connection.connect(self.gateway if to_gateway else (host, int(port)))
        self._kept.append(connection)
        return connection

    def post(self, path: str, body: bytes, length: int | None = None) -> socket.socket:
        """A request whose answer nobody reads."""
        connection = self.connect(receive_bytes=1024)
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: {length or len(body)}\r\n\r\n".encode() + body)
        return connection

    def generation(self) -> bytes:
        body = {"model": "stdlib-lm", "prompt": TEXT, "max_tokens": 200, "ignore_eos": True, "stream": True}
        return json.dumps(body).encode()

    def stream(self, client: Any, text: str = TEXT, options: SamplingParams = LONG) -> RequestStream:
        tensors = {**prompt_tensors(text), **tensors_of(options), STREAM: np.array([[True]])}
        inputs = []
        for name, array in tensors.items():
            inputs.append(InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype)))
            inputs[-1].set_data_from_numpy(np.ascontiguousarray(array))
        model = self.target if self.target != "digits-vit" else "stdlib-lm"
        request = {"model_name": model, "inputs": inputs, "parameters": {}, "enable_empty_final_response": True}
        return RequestStream(client.stream_infer, request)

    async def _stream_for(self, seconds: float) -> None:
        """Open as many streams and wait for their first tokens; for so long at most, as their worker may be dead."""
        client = aio.InferenceServerClient(self.grpc)
        self._kept += [client, *(streams := [self.stream(client) for _ in range(self.count)])]
        await asyncio.wait([stream.next() for stream in streams], timeout=seconds)

    async def killed(self) -> None:
        for _ in range(self.count):
            self.post("/v1/completions", self.generation())
        await self._stream_for(5.0)
        say_begun()
        await asyncio.sleep(3600)

    async def never_reads(self) -> None:
        for _ in range(self.count):
            self.post("/v1/completions", self.generation())
        await self._stream_for(2.0)
        say_begun()
        os.kill(os.getpid(), signal.SIGSTOP)  # the kernel takes what comes, until its buffers are full

    async def half_open(self) -> None:
        for number in range(self.count):
            connection = self.connect(to_gateway=number % 2 == 0)
            part = (b"", b"POST /v1/completions HTT", b"PRI * HTTP/2.0\r\n\r\nSM", b"GET / HTTP/1.1\r\nHost: a")
            connection.sendall(part[number % 4])
        say_begun()
        await asyncio.sleep(3600)

    async def malformed(self) -> None:
        say_begun()
        client = aio.InferenceServerClient(self.grpc)
        rng = np.random.default_rng(0)
        for number in range(self.count):
            with suppress(OSError):
                self.connect(to_gateway=number % 2 == 0).sendall(rng.bytes(2000))
                self.post("/v1/completions", rng.bytes(300)).close()
                self.post("/v1/nothing", b'{"model": 3}').close()
            pixels = InferInput("pixels", [2, 3], "FP32")
            pixels.set_data_from_numpy(np.full((2, 3), np.nan, np.float32))
            for model in ("digits-vit", "dates-transformer", "absent"):
                with suppress(Exception):
                    await client.infer(model, [pixels])
        await asyncio.sleep(3600)

    async def cancel(self) -> None:
        say_begun()
        client = aio.InferenceServerClient(self.grpc)
        free = asyncio.Semaphore(IN_FLIGHT)

        async def one() -> None:
            async with free:
                stream = self.stream(client)
                await stream.next()
                await stream.cancel()

        await asyncio.gather(*(one() for _ in range(self.count)), return_exceptions=True)
        await asyncio.sleep(3600)

    async def flood(self) -> None:
        client = aio.InferenceServerClient(self.grpc)
        streams = [self.stream(client) for _ in range(self.count)]
        self._kept += streams
        first = [stream.next() for stream in streams]
        say_begun()
        await asyncio.wait(first)

        async def read(stream: RequestStream) -> None:
            while await stream.next() is not None:
                stream.complete()

        await asyncio.gather(*(read(stream) for stream in streams), return_exceptions=True)
        await asyncio.sleep(3600)

    async def huge(self) -> None:
        say_begun()
        client = aio.InferenceServerClient(self.grpc)
        deep = b'{"model": ' + b"[" * DEPTH + b"]" * DEPTH + b"}"
        for _ in range(self.count):
            self.post("/v1/completions", deep)
            body = {"model": "stdlib-lm", "prompt": "a b " * (MEGABYTE // 4), "max_tokens": 5}
            with suppress(OSError):
                self.post("/v1/completions", json.dumps(body).encode())
            stream = self.stream(client, "word " * (MEGABYTE // 5))
            with suppress(Exception):
                await asyncio.wait({stream.next()}, timeout=10)
        await asyncio.sleep(3600)

    async def reset(self) -> None:
        say_begun()
        for number in range(self.count):
            with suppress(OSError):
                body = self.generation()
                connection = self.post("/v1/completions", body if number % 2 else body[:20], len(body))
                await asyncio.sleep(0.02)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NONE)
                connection.close()
        await asyncio.sleep(3600)

    async def churn(self) -> None:
        say_begun()
        for number in range(self.count):
            with suppress(OSError):
                self.connect(to_gateway=number % 2 == 0).close()
            client = aio.InferenceServerClient(self.grpc)
            with suppress(Exception):
                await client.is_server_ready()
            await client.close()
        await asyncio.sleep(3600)


def say_begun() -> None:
    sys.stdout.write("begun\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.chaos.bad_clients",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kind")
    parser.add_argument("count", type=int)
    parser.add_argument("grpc", help="host:port")
    parser.add_argument("gateway", help="host:port")
    parser.add_argument("target", nargs="?", default="", help="model")
    args = parser.parse_args()
    clients = BadClients(args.count, args.grpc, args.gateway, args.target)
    behave: Callable[[], Awaitable[None]] = getattr(clients, args.kind.replace("-", "_"))
    parent = os.getppid()

    async def run() -> None:
        work = asyncio.ensure_future(behave())
        while not work.done() and os.getppid() == parent:  # nobody is left behind whose starter was killed
            await asyncio.sleep(0.2)

    asyncio.run(run())
    os._exit(0)


if __name__ == "__main__":
    main()
