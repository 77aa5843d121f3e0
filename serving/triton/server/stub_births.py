"""A word in the place of workers that died as they were born: tritonserver 2.51 waits for their first one without end.

So it waits where a worker's program finds no Python file, a shell reads its line otherwise, or it was killed in its
first moment. With that word Triton goes on, and sees within a second that nobody lives there: that load alone fails.

Source: ``StubLauncher::Launch`` (stub_launcher.cc) of triton-inference-server/python_backend, r24.10.
"""

import asyncio
import struct
from contextlib import suppress
from pathlib import Path
from typing import Never

from serving.triton.server.group import living_members
from serving.triton.server.life_signs import TICK_S, Absence, ServerPulse
from serving.triton.server.shared_memory import DIRECTORY, region_prefix
from serving.triton.server.workers import server_of
from serving.triton.stub_messages import FirstMessage


async def speak_for_the_dead(group: int, regions: str) -> Never:
    """Say the first word of each worker that dies before it, until cancelled.

    Args:
        group: the server's process group.
        regions: how the names of its shared memory begin.
    """
    awaited, over = dict[str, tuple[FirstMessage, Absence]](), set[str]()
    while True:
        with suppress(OSError):  # no file may be opened just now
            names = {region.name for region in DIRECTORY.glob(f"{region_prefix(regions)}*")}
            awaited = {name: one for name, one in awaited.items() if name in names}
            over &= names
            for name in names - over - awaited.keys():
                with suppress(ValueError, struct.error):  # it is being made
                    awaited[name] = FirstMessage(DIRECTORY / name), Absence(server_of(group), name, ServerPulse())
            lines = _command_lines(group) if awaited else ""
            for name, (message, absence) in list(awaited.items()):
                absence.look(not lines or name in lines)
                if absence.is_long and message.is_awaited:
                    with suppress(BlockingIOError, struct.error):  # Triton is just looking
                        message.send()
                if not message.is_awaited:
                    over.add(name)
                    del awaited[name]
        await asyncio.sleep(TICK_S)


def _command_lines(group: int) -> str:
    """Those of all processes; nothing while one is just being started, whose line is still the server's."""
    lines, servers = [], 0
    for pid in living_members(group):
        with suppress(OSError):  # it has ended
            process = Path(f"/proc/{pid}")
            lines.append((process / "cmdline").read_bytes().decode(errors="replace"))
            servers += (process / "comm").read_text(errors="replace") == "tritonserver\n"
    return "\n".join(lines) if servers < 2 else ""
