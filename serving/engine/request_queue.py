"""The line in front of an engine: bounded; within a priority, whoever comes first is served first."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from attendant.errors import BusyError
from serving.engine.request import Request


class RequestQueue:
    """Requests that wait for slots; safe to use from several threads."""

    def __init__(self, most: int) -> None:
        """Begin empty.

        Args:
            most: requests that may wait; one more is refused.
        """
        self._most = most
        self._lines: tuple[deque[Request], deque[Request]] = (deque(), deque())
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return sum(map(len, self._lines))

    def put(self, request: Request) -> None:
        """Add a request at the end of its priority's line.

        Raises:
            BusyError: the line is full.
        """
        with self._changed:
            if len(self) >= self._most:
                message = f"queue full: {len(self)} requests waiting; retry later"
                raise BusyError(f"fewer than {self._most} requests", str(len(self)), "retry later", message=message)
            self._lines[request.options.priority].append(request)
            self._changed.notify()

    def first(self) -> Request | None:
        """Whose turn it is, if anybody waits."""
        with self._changed:
            return next((line[0] for line in self._lines if line), None)

    def front(self, count: int) -> list[Request]:
        """The first so many, in the order of their turns."""
        with self._changed:
            return [request for line in self._lines for request in line][:count]

    def remove(self, request: Request) -> None:
        """Take a request out of the line."""
        with self._changed:
            self._lines[request.options.priority].remove(request)

    def leaving(self, leaves: Callable[[Request], bool]) -> list[Request]:
        """Take out every request that leaves, and return them."""
        with self._changed:
            gone = [request for line in self._lines for request in line if leaves(request)]
            for request in gone:
                self._lines[request.options.priority].remove(request)
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
