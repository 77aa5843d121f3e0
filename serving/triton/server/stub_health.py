"""A word for the workers of a server that get no processor: Triton gives up the requests of one silent for a second.

The worker still has them then, and ends over it (:mod:`serving.triton.backends.given_up`). Whether a worker hangs is
for :mod:`serving.triton.server.life_signs` to say, which looks longer; one that is dead, or stopped, gets no word here.
"""

import asyncio
import struct
import time
from contextlib import suppress
from pathlib import Path

from serving.processes import process_fields
from serving.triton.server.shared_memory import DIRECTORY
from serving.triton.server.workers import Worker, workers_of
from serving.triton.stub_messages import CONTROL, MessagesToStub

TICK_S, LOOK_S = 0.2, 1.0
"""Between two words, and between two looks at which workers there are."""


async def vouch_for_workers(group: int) -> None:
    """Say for each worker of the server in a process group that it lives, as long as it does, until cancelled."""
    vouched, looked_s = dict[Worker, MessagesToStub](), 0.0
    while True:
        if time.monotonic() - looked_s > LOOK_S:
            looked_s = time.monotonic()
            with suppress(OSError):  # no file may be opened just now
                there = workers_of(group)
                vouched = {worker: messages for worker, messages in vouched.items() if worker in there}
                for worker in set(there) - vouched.keys():
                    with suppress(OSError, ValueError, IndexError, struct.error):  # it is being started, or asked
                        vouched[worker] = _messages_of(worker)
        for worker, messages in vouched.items():
            if _goes_on(worker):
                messages.say_alive()
        await asyncio.sleep(TICK_S)


def _messages_of(worker: Worker) -> MessagesToStub:
    arguments = Path(f"/proc/{worker.pid}/cmdline").read_text().split("\0")
    return MessagesToStub(DIRECTORY / worker.region, int(arguments[CONTROL]))


def _goes_on(worker: Worker) -> bool:
    if not (DIRECTORY / worker.region).exists():  # it was killed, and may hang in the kernel still
        return False
    with suppress(OSError, IndexError, ValueError):
        fields = process_fields(worker.pid)
        return int(fields[19]) == worker.started and fields[0] not in "ZXTt"
    return False
