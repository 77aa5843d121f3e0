"""What every call of one piece of work has: a name, the trace that it is part of, and how long it may be silent."""

import math
from collections.abc import Mapping
from contextvars import ContextVar

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""Under which the server's log and traces show a call; on a stream it is the beginning of a longer one."""
headers: ContextVar[Mapping[str, str] | None] = ContextVar("headers", default=None)
"""gRPC metadata to send, names in lower case."""
call_timeout_s: ContextVar[float] = ContextVar("call_timeout_s", default=math.inf)
"""Longest wait for the answer to one call, where that is less than the client's own."""
