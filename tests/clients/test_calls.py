"""What gRPC hears for an event loop that has ended is logged nowhere; what else fails in a callback is."""

import asyncio
import logging

from clients.calls import ignore_events_of_closed_loops


class PollerCompletionQueue:
    """As gRPC's, which cannot be built here: its callback meets the closed loop of another thread."""

    def __init__(self, loop):
        self.loop = loop

    def _handle_events(self):
        self.loop.call_soon(print)


def test_only_events_of_closed_loops_are_not_logged(caplog):
    closed = asyncio.new_event_loop()
    closed.close()

    async def hear():
        loop = asyncio.get_running_loop()
        loop.call_soon(PollerCompletionQueue(closed)._handle_events)
        loop.call_soon(closed.call_soon, print)
        loop.call_soon(PollerCompletionQueue(None)._handle_events)
        await asyncio.sleep(0.01)

    filters = list(logging.getLogger("asyncio").filters)
    ignore_events_of_closed_loops()
    try:
        asyncio.run(hear())
    finally:
        logging.getLogger("asyncio").filters[:] = filters
    logged = [record.exc_info[0] for record in caplog.records]
    assert logged == [RuntimeError, AttributeError]
