"""How much each key may ask: requests in a sliding window, tokens in a fixed one, counted by the library limits.

A request that would be one too many is refused before its body is read. Tokens are known only afterwards: an answer may
go beyond the quota, and the next request is refused.

Source: draft-ietf-httpapi-ratelimit-headers-10 (RateLimit, RateLimit-Policy).
"""

import math
import time

from limits import parse
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter, RateLimiter, SlidingWindowCounterRateLimiter

from serving.gateway.errors import RefusedError
from serving.gateway.middleware.keys import Key


class Quotas:
    """What every key has used; in this process's memory."""

    def __init__(self) -> None:
        storage = MemoryStorage()
        self._of_requests: RateLimiter = SlidingWindowCounterRateLimiter(storage)
        self._of_tokens: RateLimiter = FixedWindowRateLimiter(storage)

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

    def charge(self, key: Key, tokens: int) -> None:
        """Count the tokens of a request that is over."""
        if key.tokens and tokens:
            self._of_tokens.hit(parse(key.tokens), "tokens", key.name, cost=tokens)


def _headers(policies: list[str], left: list[str]) -> dict[str, str]:
    return {"RateLimit-Policy": ", ".join(policies), "RateLimit": ", ".join(left)} if policies else {}
