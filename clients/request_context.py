"""What travels with every call of one piece of work: its name, and the trace that it is part of."""

from collections.abc import Mapping
from contextvars import ContextVar

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""Under which the server's log and traces show a call; on a stream it is the beginning of a longer one."""
headers: ContextVar[Mapping[str, str] | None] = ContextVar("headers", default=None)
"""gRPC metadata to send, names in lower case."""
