"""A server that goes on: a model whose worker dies or hangs is loaded anew, a server that does is started anew.

Triton says READY while a model's Python process is dead or hangs, and does not start it again (server#8604). Nothing is
ever given up: what fails again is tried again, after ever longer pauses.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Never

from attendant.errors import AttendantError, ConfigError, ServerError
from clients.triton_client import TritonClient
from serving.backoff import Backoff
from serving.triton.server.process import TritonServer
from serving.triton.server.resource_watch import ResourceBounds
from serving.triton.server.server_watch import OnReady, ServerTroubles, ServerWatch, report
from serving.triton.server.stub_births import speak_for_the_dead
from serving.triton.server.wrong_models import WrongModels

LEAST_WATCH_S = 0.05
"""Who looked more often would look at every model all the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervision:
    """How a server is watched.

    Attributes:
        start_timeout_s: longest time until a started server is ready, and until a model is loaded.
        watch_s: between one look at a model and the next; 0 for none, and nothing is replaced.
        bounds: of what the server may hold; beyond them it is replaced in a quiet moment.
    """

    start_timeout_s: float
    watch_s: float = 0.5
    bounds: ResourceBounds = field(default_factory=ResourceBounds)

    def __post_init__(self) -> None:
        if not self.start_timeout_s > 0:
            raise ConfigError("start_timeout_s above 0", f"{self.start_timeout_s:g}", "allow some seconds")
        if self.watch_s and not LEAST_WATCH_S <= self.watch_s < inf:
            expected = f"watch_s of at least {LEAST_WATCH_S:g}, or 0"
            raise ConfigError(expected, f"{self.watch_s:g}", "look every half a second, or never")


async def supervise(start: Callable[[], TritonServer], supervision: Supervision, on_ready: OnReady) -> None:
    """Keep a server running until it is cancelled.

    Args:
        start: makes a server that was not started yet.
        supervision: how it is watched.
        on_ready: called whenever one is ready, with the models that it does not serve, each with the reason.

    Raises:
        AttendantError: the first server did not become ready, or serves none of its models.
    """
    backoff, first, before = Backoff(), True, tuple[str, ...]()
    troubles = ServerTroubles()
    wrong: WrongModels | None = None
    failed_before, suspects = list[TritonServer](), list[str]()
    speaking: asyncio.Future[Never] | None = None
    try:
        while True:
            server = start()
            wrong = wrong or WrongModels(server.repository)
            left_out = troubles.models()
            try:
                # With these it may crash: they are loaded behind the others.
                changed = set() if first else wrong.changed()
                # It would wait for all that it loads at its start, which may not end: each model's watch has it loaded.
                later = {*left_out, *wrong.names(), *changed}
                server.start(later=later, before=before, empty=True)
                before = server.models
                speaking = asyncio.ensure_future(speak_for_the_dead(server.group or 0, server.regions))
                await server.wait_until_live(supervision.start_timeout_s)
                async with TritonClient(
                    server.endpoints.grpc,
                    supervision.start_timeout_s,
                    tls=server.own_client,
                    admin_key=server.admin_key,
                ) as client:
                    watch_s, bounds = supervision.watch_s, supervision.bounds
                    watch = ServerWatch(server, client, troubles, wrong, watch_s, bounds, one_by_one=bool(suspects))
                    try:
                        reason = await watch.watch(on_ready, changed, is_first=first)
                    finally:
                        if watch.has_begun.is_set():
                            first, suspects = False, []
                    if first or not supervision.watch_s:
                        raise ServerError("a running tritonserver", reason, "see its log")
            except Exception as error:  # the machine may lack descriptors, processes, room on a disk
                if first and not isinstance(error, (AttendantError, OSError)):
                    raise  # a mistake of ours
                reason, ended = str(error), server.poll() is not None
                if first and ended and (crashed_with := server.models_at_the_crash()):
                    reason = f"the server crashed while it loaded {', '.join(crashed_with)}"
                    # Of several, a start that loads one after another shows which.
                    is_clear = len(crashed_with) == 1 or suspects
                    suspects = [] if is_clear else crashed_with
                    for name in crashed_with if is_clear else ():
                        troubles.harmful.count(name)
                is_tried_again = suspects or left_out < troubles.models() < set(server.models)
                if not supervision.watch_s or (first and not is_tried_again):
                    raise
            except asyncio.CancelledError:  # perhaps between the end of the server and the word of it
                failed_before.append(server)
                raise
            finally:
                if speaking is not None:
                    speaking.cancel()
                server.stop()
            # Of the last one the log stays for a while; where descriptors or the disk have run out, so do folders.
            failed_before = [server, *(one for one in failed_before if not one.remove_log())]
            report(f"starting the server anew: {reason}")
            await asyncio.sleep(backoff.pause_after_failure())
    finally:
        for one in failed_before:
            one.remove_log()
