"""Who is said to live: a process that looks like a stub, whose region of shared memory is written by hand."""

import asyncio
import os
import signal
import struct
import subprocess
import sys

import pytest

from serving.triton.server.shared_memory import DIRECTORY
from serving.triton.server.stub_health import vouch_for_workers
from serving.triton.stub_messages import OWNER_BYTES, QUEUE_AT, STATE_AT, STUB
from tests.end_to_end.asking import PATIENCE_S

CONTROL_PLACE, QUEUE_PLACE = 64, 512
HEALTH = CONTROL_PLACE + OWNER_BYTES


@pytest.fixture
def region():
    """A region with an empty queue, in which nobody has said that the stub lives."""
    data = bytearray(1024)
    struct.pack_into("q", data, CONTROL_PLACE + OWNER_BYTES + QUEUE_AT, QUEUE_PLACE)
    struct.pack_into("Qqii", data, QUEUE_PLACE + OWNER_BYTES + STATE_AT, 1000, 0, 7, 7)
    path = DIRECTORY / f"attendant_test_{os.getpid()}_health"
    path.write_bytes(data)
    yield path
    path.unlink()


@pytest.fixture
def stub(region, tmp_path):
    script = tmp_path / "model/1/model.py"
    script.parent.mkdir(parents=True)
    script.write_text("import time\ntime.sleep(600)\n")
    words = [f"/a/{STUB}", str(script), region.name, "0", "0", "0", "0", str(CONTROL_PLACE), "model_0_0"]
    process = subprocess.Popen(words, executable=sys.executable, start_new_session=True)
    yield process
    process.kill()
    process.wait()


def _is_said(region):
    return region.read_bytes()[HEALTH] == 1


def _forget(region):
    with region.open("r+b") as file:
        file.seek(HEALTH)
        file.write(b"\0")


async def _is_said_soon(region):
    _forget(region)
    ends = asyncio.get_running_loop().time() + PATIENCE_S
    while not _is_said(region) and asyncio.get_running_loop().time() < ends:
        await asyncio.sleep(0.05)
    return _is_said(region)


async def _is_never_said(region):
    await asyncio.sleep(0.3)  # what was about to be said
    _forget(region)
    await asyncio.sleep(1.0)
    return not _is_said(region)


@pytest.mark.planted
def test_a_worker_is_said_to_live_as_long_as_it_does_and_is_not_stopped(region, stub):
    async def watched():
        vouching = asyncio.ensure_future(vouch_for_workers(stub.pid))
        try:
            assert await _is_said_soon(region)
            assert await _is_said_soon(region)
            os.kill(stub.pid, signal.SIGSTOP)
            assert await _is_never_said(region)
            os.kill(stub.pid, signal.SIGCONT)
            assert await _is_said_soon(region)
            region.rename(kept := region.with_name(f"{region.name}_kept"))  # as of a worker that was killed, and hangs
            try:
                assert await _is_never_said(kept)
            finally:
                kept.rename(region)
            assert await _is_said_soon(region)
            stub.kill()
            assert await _is_never_said(region)
            assert not vouching.done()
        finally:
            vouching.cancel()

    asyncio.run(watched())


def test_one_whose_region_is_of_another_layout_is_left_alone(region, stub):
    region.write_bytes(bytes(1024))

    async def watched():
        vouching = asyncio.ensure_future(vouch_for_workers(stub.pid))
        await asyncio.sleep(1.5)
        assert not vouching.done()
        vouching.cancel()

    asyncio.run(watched())
    assert region.read_bytes() == bytes(1024)
