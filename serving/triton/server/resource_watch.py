"""What tritonserver itself holds: where descriptors, memory or threads pass a bound, it is replaced in a quiet moment.

Triton gives memory back to no one, a client that never reads costs a connection for as long as it lives, and of a model
whose worker died with requests under way its threads stay.
"""

import asyncio
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path

from serving.processes import AT_WORK, ProcessRecord, WorkMeter, process_fields, process_of
from serving.triton.server.group import living_members
from serving.triton.server.workers import server_of

TICK_S = 1.0
"""Long enough that the examples which idle models answer are no work."""
_PAGE_BYTES = resource.getpagesize()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceBounds:
    """How much a server may hold, and how it is replaced.

    Attributes:
        descriptors: share of the files that it may open.
        memory_factor: most resident memory, as a multiple of that after its start, and
        memory_bytes: so much more.
        threads: so many more than after its start.
        look_s: between two looks; two in a row must be beyond a bound.
        quiet_s: how long its processes must use less than a tenth of a processor, before it is replaced.
        patience_s: how long that is waited for.
    """

    descriptors: float = 0.8
    memory_factor: float = 2.0
    memory_bytes: int = 1 << 30
    threads: int = 2000
    look_s: float = 5.0
    quiet_s: float = 3.0
    patience_s: float = 600.0


async def wait_for_excess(
    group: int, bounds: ResourceBounds, report: Callable[[str], None], due_s: float = -inf
) -> str:
    """Why the server is to be replaced now; it is not while all is within bounds.

    Args:
        group: the server's process group; what it holds now is taken for what it needs.
        bounds: of what it holds.
        report: takes a line about what happens.
        due_s: when it may be replaced, by the monotonic clock: what clients hold who are there, the next one has soon.
    """
    while (server := server_of(group)) is None:  # it ended, which is another's to see
        await asyncio.sleep(bounds.look_s)
    most_descriptors = bounds.descriptors * _most_descriptors(server)
    most_bytes = bounds.memory_factor * _resident_bytes(server) + bounds.memory_bytes
    most_threads = bounds.threads + _threads(server)
    found, looks = "", 0
    while looks < 2 or time.monotonic() < due_s:
        await asyncio.sleep(bounds.look_s)
        descriptors, held_bytes, threads = _descriptors(server), _resident_bytes(server), _threads(server)
        excess = descriptors > most_descriptors or held_bytes > most_bytes or threads > most_threads
        looks = looks + 1 if excess else 0
        found = (
            f"it holds {descriptors} descriptors, of {most_descriptors:.0f} that it may, "
            f"{held_bytes >> 20} MiB of memory, of {int(most_bytes) >> 20}, and {threads} threads, of {most_threads}"
        )
    report(f"{found}: the server is replaced in a quiet moment, or else in {bounds.patience_s:.0f} s")
    await wait_for_quiet(group, bounds.quiet_s, bounds.patience_s)
    return found


async def wait_for_quiet(group: int, quiet_s: float, patience_s: float) -> None:
    """Return once the processes of a group have used less than a tenth of a processor for a while.

    Args:
        group: the server's process group.
        quiet_s: for how long.
        patience_s: how long that is waited for.
    """
    meter, busy_s = WorkMeter(), time.monotonic()
    ends_s = busy_s + patience_s
    while time.monotonic() < min(busy_s + quiet_s, ends_s):
        await asyncio.sleep(TICK_S)
        if meter.share(_processes(group), TICK_S) > AT_WORK:
            busy_s = time.monotonic()


def _processes(group: int) -> Iterator[ProcessRecord]:
    for pid in living_members(group):
        with suppress(OSError):  # it ended while we looked
            yield process_of(pid)


def _most_descriptors(server: ProcessRecord) -> float:
    with suppress(OSError):
        soft, _ = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
        return inf if soft == resource.RLIM_INFINITY else soft
    return inf


def _descriptors(server: ProcessRecord) -> int:
    with suppress(OSError):
        return sum(1 for _ in Path(f"/proc/{server.pid}/fd").iterdir())
    return 0


def _threads(server: ProcessRecord) -> int:
    with suppress(OSError, IndexError):
        return int(process_fields(server.pid)[17])
    return 0


def _resident_bytes(server: ProcessRecord) -> int:
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{server.pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    return 0
