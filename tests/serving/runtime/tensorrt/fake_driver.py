"""A driver that does nothing before it has to, and checks what it is asked: addresses, sizes, order, frees.

What is queued on a stream is done when the host waits for it, or when another stream has to: work that is not ordered
behind what it needs finds the wrong contents. Streams that are prompt do their work at once instead, as far as
the events allow: what must not be overwritten yet is overwritten.
"""

import ctypes
from collections import Counter, deque
from dataclasses import dataclass, field

_FIRST_ADDRESS, _GAP = 0x7000_0000, 4096


@dataclass
class Block:
    contents: bytearray
    freed: bool = False


@dataclass
class FakeDriver:
    prompt: tuple[int, ...] = ()
    blocks: dict[int, Block] = field(default_factory=dict)
    queues: dict[int, deque] = field(default_factory=dict)
    events: dict[int, int] = field(default_factory=dict)
    past: dict[int, int] = field(default_factory=dict)
    pinned: dict[int, object] = field(default_factory=dict)
    recordings: dict[int, list] = field(default_factory=dict)
    replays: int = 0
    counts: Counter = field(default_factory=Counter)
    total: int = 1 << 40
    recording_bytes: int = 0
    _next: int = _FIRST_ADDRESS
    _recording: tuple[int, list] | None = None

    def enter(self):
        pass

    def stream(self):
        self.queues[len(self.queues) + 1] = deque()
        return len(self.queues)

    def event(self):
        self.events[len(self.events) + 1] = 0
        self.past[len(self.events)] = 0
        return len(self.events)

    def record(self, event, stream):
        self.events[event] += 1
        self._queue(stream, ("mark", event, self.events[event]))

    def wait_for(self, stream, event):
        self._queue(stream, ("wait", event, self.events[event]))

    def finish(self, stream):
        self._drain(stream)

    def finish_event(self, event):
        self._reach(event, self.events[event])

    def allocate(self, nbytes, stream):
        assert self._recording is None, "no memory is allocated while work is recorded"
        address, self._next = self._next, self._next + -(-(nbytes + _GAP) // 256) * 256
        self.blocks[address] = Block(bytearray(b"\xa5" * nbytes))
        self._count("allocate")
        return address

    def free(self, address, stream):
        assert self._recording is None, "no memory is freed while work is recorded"
        assert address in self.blocks, "only what was allocated is freed"

        def work():
            assert not self.blocks[address].freed, "freed twice"
            self.blocks[address].freed = True

        self._queue(stream, ("do", work))

    def memory(self):
        """Buffers come from a pool, which asks for more now and then; what is recorded is taken at once."""
        kept = sum(record is not None for record in self.recordings.values())
        return self.total - kept * self.recording_bytes, self.total

    def pin(self, nbytes):
        buffer = ctypes.create_string_buffer(nbytes)
        self.pinned[ctypes.addressof(buffer)] = buffer
        self._count("pin")
        return ctypes.addressof(buffer)

    def unpin(self, address):
        del self.pinned[address]

    def zero(self, address, nbytes, stream):
        self._queue(stream, ("do", lambda: self.write(address, bytes(nbytes))))

    def copy_in(self, device, host, nbytes, stream):
        self._require_pinned(host, nbytes)
        self._queue(stream, ("do", lambda: self.write(device, ctypes.string_at(host, nbytes))))

    def copy_out(self, host, device, nbytes, stream):
        self._count("copy_out")
        self._require_pinned(host, nbytes)
        self._queue(stream, ("do", lambda: ctypes.memmove(host, self.read(device, nbytes), nbytes)))

    def copy(self, target, source, nbytes, stream):
        assert target + nbytes <= source or source + nbytes <= target, "both ends overlap"
        self._queue(stream, ("do", lambda: self.write(target, self.read(source, nbytes))))

    def copy_lines(self, target, target_pitch, source, source_pitch, nbytes, lines, stream):
        assert nbytes <= min(target_pitch, source_pitch), "a line is longer than its pitch"

        def work():
            for line in range(lines):
                self.write(target + line * target_pitch, self.read(source + line * source_pitch, nbytes))

        self._queue(stream, ("do", work))

    def begin_recording(self, stream):
        assert self._recording is None
        self._recording = stream, []

    def end_recording(self, stream):
        assert self._recording is not None and self._recording[0] == stream
        record, self._recording = self._recording[1], None
        assert record, "an empty recording"
        self.recordings[len(self.recordings) + 1] = record
        return len(self.recordings)

    def replay(self, recording, stream):
        self.replays += 1
        for step in self.recordings[recording]:
            self._queue(stream, step)

    def forget(self, recording):
        self.recordings[recording] = None

    # What tests and the engine's stand-in ask.

    def run(self, stream, work):
        self._queue(stream, ("do", work))

    def read(self, address, nbytes):
        block, begin = self._block(address, nbytes)
        return bytes(block.contents[begin : begin + nbytes])

    def write(self, address, contents):
        block, begin = self._block(address, len(contents))
        block.contents[begin : begin + len(contents)] = contents

    def living(self):
        for stream in self.queues:
            self._drain(stream)
        return [address for address, block in self.blocks.items() if not block.freed]

    def _block(self, address, nbytes):
        for begin, block in self.blocks.items():
            if begin <= address and address + nbytes <= begin + len(block.contents):
                assert not block.freed, f"{address:#x} was freed"
                return block, address - begin
        raise AssertionError(f"{nbytes} bytes at {address:#x} lie in no memory that was allocated")

    def _require_pinned(self, host, nbytes):
        inside = (begin <= host and host + nbytes <= begin + len(buffer) for begin, buffer in self.pinned.items())
        assert any(inside), "the host's end of a copy is not pinned"

    def _queue(self, stream, step):
        if self._recording is not None and self._recording[0] == stream:
            self._recording[1].append(step)
            return
        self.queues[stream].append(step)
        if stream in self.prompt:
            while self.queues[stream] and self._may(self.queues[stream][0]):
                self._do(self.queues[stream].popleft())

    def _may(self, step):
        return step[0] != "wait" or self.past[step[1]] >= step[2]

    def _drain(self, stream):
        while self.queues[stream]:
            self._do(self.queues[stream].popleft())

    def _do(self, step):
        if step[0] == "mark":
            self.past[step[1]] = max(self.past[step[1]], step[2])
        elif step[0] == "wait":
            self._reach(step[1], step[2])
        else:
            step[1]()

    def _reach(self, event, number):
        for queue in self.queues.values():
            while self.past[event] < number and ("mark", event, number) in queue:
                self._do(queue.popleft())
        assert self.past[event] >= number, "an event that nothing marks"

    def _count(self, what):
        self.counts[what] += 1
