"""Whether a server truly works: a canary request to every model, checked against the right answer.

Readiness alone says little: a server whose Python worker is dead still answers READY.
"""

import time
from dataclasses import dataclass

from attendant.errors import AttendantError, BusyError, ServerError
from clients.canary import CanaryResult, check_answer
from clients.served_model import ServedModel
from clients.triton_client import TritonClient


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelHealth:
    """What one canary found.

    Attributes:
        name: the model's.
        task: the model's.
        healthy: whether the answer came and was right.
        found: the answer, or the error.
        latency_ms: from the request to the whole answer.
    """

    name: str
    task: str
    healthy: bool
    found: str
    latency_ms: float


async def health(client: TritonClient) -> list[ModelHealth]:
    """Send every loaded model its example.

    Raises:
        UnreachableError: nothing answers.
    """
    return [await canary(client, await client.model(name)) for name in await client.models()]


async def canary(client: TritonClient, model: ServedModel) -> ModelHealth:
    """Send one model its example, or something harmless, and judge the answer."""
    began = time.perf_counter()
    try:
        result = await check_answer(client, model)
    except BusyError as error:  # the model itself said so: it is at work
        result = CanaryResult(found=str(error), right=True)
    except AttendantError as error:
        result = CanaryResult(found=str(error), right=False)
    latency_ms = (time.perf_counter() - began) * 1e3
    return ModelHealth(
        name=model.name, task=model.task, healthy=result.right, found=result.found, latency_ms=latency_ms
    )


def require_healthy(results: list[ModelHealth], expected: set[str]) -> None:
    """Fail unless every expected model answered its canary rightly.

    Raises:
        ServerError: one did not; the message says what it answered.
    """
    for result in results:
        if not result.healthy:
            raise ServerError(
                f"the right answer from {result.name!r} to its example", result.found, "look at the server's log"
            )
    missing = expected - {result.name for result in results}
    if missing:
        raise ServerError(f"the models {sorted(expected)}", f"no {sorted(missing)}", "look at the server's log")
