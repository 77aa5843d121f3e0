"""How much each key may ask: requests in a sliding window, tokens in a fixed one, counted by the library limits.

A request that would be one too many is refused before its body is read. The tokens that a request may take are reserved
before its work begins, and what it took is counted when it is over: requests that come at once stay within the quota.

Source: draft-ietf-httpapi-ratelimit-headers-10 (RateLimit, RateLimit-Policy).
"""

import math
import time
from collections import defaultdict

from limits import parse
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter, RateLimiter, SlidingWindowCounterRateLimiter

from serving.gateway.errors import RETRY_AFTER_S, RefusedError
from serving.gateway.middleware.keys import Key


class Quotas:
    """What every key has used; in this process's memory."""

    def __init__(self) -> None:
        storage = MemoryStorage()
        self._of_requests: RateLimiter = SlidingWindowCounterRateLimiter(storage)
        self._of_tokens: RateLimiter = FixedWindowRateLimiter(storage)
        self._reserved: defaultdict[str, int] = defaultdict(int)

    def admit(self, key: Key) -> dict[str, str]:
        """Count a request.

        Returns:
            Headers that say what is left.

        Raises:
            RefusedError: it is one too many, or the tokens are used up.
        """
        admitted = True
        policies, left = [], []
        limits = [("requests", key.requests, self._of_requests), ("tokens", key.tokens, self._of_tokens)]
        for name, limit, limiter in limits:
            if not limit:
                continue
            item = parse(limit)
            if name == "tokens":
                admitted &= limiter.test(item, name, key.name)
            else:
                admitted &= limiter.hit(item, name, key.name)
            stats = limiter.get_window_stats(item, name, key.name)
            wait_s, remaining = max(1, math.ceil(stats.reset_time - time.time())), max(0, stats.remaining)
            policies.append(f'"{name}";q={item.amount};w={item.get_expiry()}')
            left.append(f'"{name}";r={remaining};t={wait_s}')
            if not admitted:
                headers = {**_headers(policies, left), "Retry-After": str(wait_s)}
                raise RefusedError(429, f"expected at most {item}, of {name}; found more; wait", None, headers)
        return _headers(policies, left)

    def reserve(self, key: Key, likely: int, most: int) -> int:
        """Set tokens aside for a request, until :meth:`settle`.

        A prompt's tokens are known only to the model. The most that a request can take is reserved where it fits; a
        request with no other beside it may also begin where what is likely fits.

        Args:
            key: with a quota of tokens.
            likely: tokens of the request.
            most: that it can take.

        Returns:
            What is reserved.

        Raises:
            RefusedError: so much is not left, or more than the whole quota.
        """
        item, held = parse(key.tokens), self._reserved[key.name]
        if likely > item.amount:
            found = f"found a request that may take {likely}; set max_tokens, ask for fewer answers or a shorter text"
            raise RefusedError(400, f"expected at most {item}, of tokens; {found}", "max_tokens")
        stats = self._of_tokens.get_window_stats(item, "tokens", key.name)
        left = max(0, stats.remaining)
        if most <= left - held:
            reserved = most
        elif not held and likely <= left:
            reserved = left
        else:
            wait_s = RETRY_AFTER_S if likely <= left else str(max(1, math.ceil(stats.reset_time - time.time())))
            found = f"found a request that may take {likely} where {left - held} are left; wait"
            raise RefusedError(429, f"expected at most {item}, of tokens; {found}", None, {"Retry-After": wait_s})
        self._reserved[key.name] += reserved
        return reserved

    def settle(self, key: Key, reserved: int, used: int) -> None:
        """Count the tokens of a request that is over, and return what was reserved for it."""
        if key.tokens and used:
            self._of_tokens.hit(parse(key.tokens), "tokens", key.name, cost=used)
        if reserved:
            self._reserved[key.name] -= reserved
            if not self._reserved[key.name]:
                del self._reserved[key.name]


def _headers(policies: list[str], left: list[str]) -> dict[str, str]:
    return {"RateLimit-Policy": ", ".join(policies), "RateLimit": ", ".join(left)} if policies else {}
