"""The line in front of an engine: bounded; within a priority, whoever comes first is served first."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from attendant.errors import BusyError
from serving.engine.sequence import Ticket


class RequestQueue:
    """Requests that wait for slots; safe to use from several threads."""

    def __init__(self, most: int) -> None:
        """Begin empty.

        Args:
            most: requests that may wait; one more is refused.
        """
        self._most = most
        self._lines: tuple[deque[Ticket], deque[Ticket]] = (deque(), deque())
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return sum(map(len, self._lines))

    def put(self, ticket: Ticket) -> None:
        """Add a request at the end of its priority's line.

        Raises:
            BusyError: the line is full.
        """
        with self._changed:
            if len(self) >= self._most:
                message = f"queue full: {len(self)} requests waiting; retry later"
                raise BusyError(f"fewer than {self._most} requests", str(len(self)), "retry later", message=message)
            self._lines[ticket.request.options.priority].append(ticket)
            self._changed.notify()

    def first(self) -> Ticket | None:
        """Whose turn it is, if anybody waits."""
        with self._changed:
            return next((line[0] for line in self._lines if line), None)

    def front(self, count: int) -> list[Ticket]:
        """The first so many, in the order of their turns."""
        with self._changed:
            return [ticket for line in self._lines for ticket in line][:count]

    def remove(self, ticket: Ticket) -> None:
        """Take a request out of the line."""
        with self._changed:
            self._lines[ticket.request.options.priority].remove(ticket)

    def leaving(self, leaves: Callable[[Ticket], bool]) -> list[Ticket]:
        """Take out every request that leaves, and return them."""
        with self._changed:
            gone = [ticket for line in self._lines for ticket in line if leaves(ticket)]
            for ticket in gone:
                self._lines[ticket.request.options.priority].remove(ticket)
            return gone

    def wait(self, longest_s: float) -> None:
        """Wait until somebody comes, or :meth:`wake` is called."""
        with self._changed:
            if not len(self):
                self._changed.wait(longest_s)

    def wake(self) -> None:
        """End a :meth:`wait`."""
        with self._changed:
            self._changed.notify_all()
