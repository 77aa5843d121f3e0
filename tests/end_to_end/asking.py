"""Run a client's coroutine against a server, in a test."""

import asyncio
import subprocess
import sys

from clients.triton_client import TritonClient


def ask(server, question, timeout_s=10.0):
    """``question(client)`` is a coroutine; its result."""

    async def asked():
        async with TritonClient(server.grpc, timeout_s) as client:
            return await question(client)

    return asyncio.run(asked())


def python_m(*words, text=None, timeout=120):
    """``python -m`` with these words, standard input ``text``."""
    command = [sys.executable, "-m", *map(str, words)]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=timeout)
