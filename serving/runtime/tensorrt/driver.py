"""What is asked of the CUDA driver: memory, copies, order between streams, and recorded work.

Addresses and handles are plain integers. A copy or a run is queued on a stream and done in that stream's order; nothing
is known to be done before the host has waited for the stream, or for an event that was recorded behind it.
"""

from __future__ import annotations

from typing import NewType, Protocol

Stream = NewType("Stream", int)
Event = NewType("Event", int)
Recording = NewType("Recording", int)


class Driver(Protocol):
    """One GPU."""

    def enter(self) -> None:
        """Make the GPU that of the calling thread."""

    def stream(self) -> Stream:
        """A new stream."""

    def event(self) -> Event:
        """A new event."""

    def record(self, event: Event, stream: Stream) -> None:
        """Let an event stand for all that is queued on a stream so far."""

    def wait_for(self, stream: Stream, event: Event) -> None:
        """Let what is queued on a stream from now on begin behind an event; one never recorded is past."""

    def finish(self, stream: Stream) -> None:
        """Wait until all that is queued on a stream is done."""

    def finish_event(self, event: Event) -> None:
        """Wait until an event is past."""

    def allocate(self, nbytes: int, stream: Stream) -> int:
        """Memory on the device, from a stream's next work on; its address."""

    def free(self, address: int, stream: Stream) -> None:
        """Give memory back behind what is queued on a stream."""

    def memory(self) -> tuple[int, int]:
        """Bytes of the GPU's memory that are free now, of all processes, and all that it has."""

    def pin(self, nbytes: int) -> int:
        """Memory of the host that copies need not stage; its address."""

    def unpin(self, address: int) -> None:
        """Give it back."""

    def zero(self, address: int, nbytes: int, stream: Stream) -> None:
        """Fill memory on the device with zeros."""

    def copy_in(self, device: int, host: int, nbytes: int, stream: Stream) -> None:
        """Copy from the host's pinned memory; it must stay as it is until that is done."""

    def copy_out(self, host: int, device: int, nbytes: int, stream: Stream) -> None:
        """Copy into the host's pinned memory."""

    def copy(self, target: int, source: int, nbytes: int, stream: Stream) -> None:
        """Copy on the device; both ends must not overlap."""

    def copy_lines(
        self, target: int, target_pitch: int, source: int, source_pitch: int, nbytes: int, lines: int, stream: Stream
    ) -> None:
        """Copy so many lines of ``nbytes`` each, whose beginnings lie a pitch apart, on the device."""

    def begin_recording(self, stream: Stream) -> None:
        """Record what this thread queues on a stream instead of doing it."""

    def end_recording(self, stream: Stream) -> Recording:
        """What was queued since, ready to be done again and again."""

    def replay(self, recording: Recording, stream: Stream) -> None:
        """Queue what was recorded."""

    def forget(self, recording: Recording) -> None:
        """Give a recording back."""
