"""How many descriptors this process may open, and which of them it keeps for its own work."""

import resource
from contextlib import suppress

RESERVE = 64
"""Descriptors that clients leave for the process's own work, or a quarter of all where that is less."""


def raise_descriptor_limit() -> None:
    """Allow this process, and those that it starts, as many as its hard limit does."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # a sandbox forbids it
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def descriptor_limit() -> int:
    """How many may be open now."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft


def is_reserved(descriptor: int) -> bool:
    """Whether a new descriptor is one of the reserve: the kernel gives the lowest number that is free."""
    limit = descriptor_limit()
    return descriptor >= limit - min(RESERVE, limit // 4)
