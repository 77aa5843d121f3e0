"""The readiness that counts: every model of a server answers its example rightly."""

import asyncio
from collections.abc import Callable

from clients.health import ModelHealth, health, require_healthy
from clients.tls import Tls
from clients.triton_client import TritonClient
from serving.triton.server.endpoints import Endpoints


def canary_check(models: set[str], timeout_s: float, tls: Tls | None = None) -> Callable[[Endpoints], None]:
    """A check for ``TritonServer.wait_until_ready``.

    Args:
        models: the models that must answer.
        timeout_s: longest wait for each answer.
        tls: towards the server.
    """

    def check(endpoints: Endpoints) -> None:
        async def ask_all() -> list[ModelHealth]:
            async with TritonClient(endpoints.grpc, timeout_s, tls=tls) as client:
                return await health(client)

        require_healthy(asyncio.run(ask_all()), models)

    return check
