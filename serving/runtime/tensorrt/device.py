"""One GPU as runners share it: three streams, memory that frees itself, and pinned memory of the host for copies.

Of the streams,
    inward    copies of inputs; those of the next run go on while this one computes
    compute   runs, and whatever writes to buffers, in the order in which it was requested
    outward   copies of results, each behind what was requested of ``compute`` before it
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from serving.runtime.base import Array
from serving.runtime.tensorrt.driver import Driver, Event, Recording, Stream

_SMALLEST_BLOCK = 4096


class Memory:
    """Memory on the device, given back when nobody refers to it any more.

    Attributes:
        address: where it begins.
        nbytes: its size.
    """

    def __init__(self, device: Device, nbytes: int, stream: Stream) -> None:
        self.nbytes = nbytes
        self.address = device.driver.allocate(max(nbytes, 1), stream)
        # At the interpreter's end the driver takes everything back itself, and may be gone before us.
        weakref.finalize(self, device.later, partial(device.driver.free, self.address, device.compute)).atexit = False


class Device:
    """One GPU.

    Attributes:
        driver: what it is asked through.
        inward: the stream of inputs.
        compute: the stream of runs.
        outward: the stream of results.
    """

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self._lock = threading.RLock()
        driver.enter()
        self.inward, self.compute, self.outward = driver.stream(), driver.stream(), driver.stream()
        self._asked = driver.event()
        self._pinned = _PinnedPool(driver)
        self._later: deque[Callable[[], None]] = deque()
        self._is_recording = False

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Let one thread after the other ask."""
        with self._lock:
            self.driver.enter()
            while self._later and not self._is_recording:
                self._later.popleft()()
            yield

    def later(self, work: Callable[[], None]) -> None:
        """Ask something in the next turn: what the garbage collector calls may come in the midst of one."""
        self._later.append(work)

    def memory(self, nbytes: int, stream: Stream | None = None) -> Memory:
        """New memory, to be used from a stream's next work on; that of ``compute`` if none is given."""
        return Memory(self, nbytes, self.compute if stream is None else stream)

    def record(self, work: Callable[[], None]) -> Recording:
        """What some work queues on ``compute``, to be replayed; nothing of it is done yet."""
        self._is_recording = True
        try:
            self.driver.begin_recording(self.compute)
            work()
        finally:
            self._is_recording = False
            recording = self.driver.end_recording(self.compute)
        return recording

    def put(self, address: int, array: Array, stream: Stream) -> None:
        """Queue the copy of an array to the device; the array may be changed at once."""
        block = self._pinned.take(array.nbytes)
        np.copyto(block.view(array.dtype, array.shape), array)
        self.driver.copy_in(address, block.address, array.nbytes, stream)
        self._pinned.give(block, stream)

    def get(self, address: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        """What lies on the device once all that was asked of ``compute`` is done, as an array of one's own."""
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        block = self._pinned.take(nbytes)
        self.driver.record(self._asked, self.compute)
        self.driver.wait_for(self.outward, self._asked)
        self.driver.copy_out(block.address, address, nbytes, self.outward)
        self.driver.finish(self.outward)
        words = block.words()
        give = partial(self._pinned.give, block, self.outward)
        weakref.finalize(words, self.later, give).atexit = False
        array: Array = np.frombuffer(words, dtype=dtype, count=nbytes // dtype.itemsize).reshape(shape)
        return array


class _Pinned:
    def __init__(self, address: int, nbytes: int, done: Event) -> None:
        self.address, self.nbytes, self.done = address, nbytes, done

    def words(self) -> Any:
        return (ctypes.c_char * self.nbytes).from_address(self.address)

    def view(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        count = int(np.prod(shape, dtype=np.int64))
        array: Array = np.frombuffer(self.words(), dtype=dtype, count=count).reshape(shape)
        return array


class _PinnedPool:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._free: dict[int, deque[_Pinned]] = {}

    def take(self, nbytes: int) -> _Pinned:
        size = max(_SMALLEST_BLOCK, 1 << (nbytes - 1).bit_length())
        free = self._free.setdefault(size, deque())
        if not free:
            return _Pinned(self._driver.pin(size), size, self._driver.event())
        block = free.popleft()
        self._driver.finish_event(block.done)  # the oldest: as a rule its copy has long been done
        return block

    def give(self, block: _Pinned, stream: Stream) -> None:
        self._driver.record(block.done, stream)
        self._free[block.nbytes].append(block)
