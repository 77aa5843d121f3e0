"""How much each key may ask: requests in a sliding window, counted by the library limits, and tokens in a fixed one.

Both hold on average. The sliding window takes the requests of the one before for evenly spread, and a fixed one ends at
once: in a time of that length twice as many may pass.

A request that would be one too many is refused before its body is read. The tokens that a request may take are reserved
before its work begins, and what it took is counted when it is over: requests that come at once stay within the quota.

Source: draft-ietf-httpapi-ratelimit-headers-10 (RateLimit, RateLimit-Policy).
"""

import math
import time
from collections import defaultdict

from limits import RateLimitItem, parse
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter

from serving.gateway.errors import RETRY_AFTER_S, RefusedError
from serving.gateway.middleware.keys import Key


class Quotas:
    """What every key has used; in this process's memory."""

    def __init__(self) -> None:
        self._of_requests = SlidingWindowCounterRateLimiter(MemoryStorage())
        self._of_tokens = _TokenWindows()
        self._reserved: defaultdict[str, int] = defaultdict(int)

    def admit(self, key: Key, takes_tokens: bool = True) -> dict[str, str]:
        """Count a request.

        Args:
            key: whose it is.
            takes_tokens: whether it is of those that take tokens, and needs some to be left.

        Returns:
            Headers that say what is left.

        Raises:
            RefusedError: it is one too many, or the tokens are used up.
        """
        admitted = True
        policies, left = [], []
        for name, limit in (("requests", key.requests), ("tokens", key.tokens)):
            if not limit:
                continue
            item = parse(limit)
            if name == "tokens":
                remaining, left_s = self._of_tokens.left(item, key.name)
                admitted &= remaining > 0 or not takes_tokens
            else:
                admitted &= self._of_requests.hit(item, name, key.name)
                stats = self._of_requests.get_window_stats(item, name, key.name)
                remaining, left_s = max(0, stats.remaining), stats.reset_time - time.time()
            wait_s = max(1, math.ceil(left_s))
            policies.append(f'"{name}";q={item.amount};w={item.get_expiry()}')
            left.append(f'"{name}";r={remaining};t={wait_s}')
            if not admitted:
                headers = {**_headers(policies, left), "Retry-After": str(wait_s)}
                raise RefusedError(429, f"expected at most {item}, of {name}; found more; wait", None, headers)
        return _headers(policies, left)

    def reserve(self, key: Key, likely: int, most: int, before: int = 0) -> int:
        """Set tokens aside for a request, until :meth:`settle`.

        A prompt's tokens are known only to the model. The most that a request can take is reserved where it fits; a
        request with no other beside it may also begin where what is likely fits.

        Args:
            key: with a quota of tokens.
            likely: tokens of the request.
            most: that it can take.
            before: what is reserved for it, in whose place this comes.

        Returns:
            What is reserved.

        Raises:
            RefusedError: so much is not left, or more than the whole quota.
        """
        item, held = parse(key.tokens), self._reserved[key.name] - before
        if likely > item.amount:
            found = f"found a request that may take {likely}; set max_tokens, ask for fewer answers or a shorter text"
            raise RefusedError(400, f"expected at most {item}, of tokens; {found}", "max_tokens")
        left, left_s = self._of_tokens.left(item, key.name)
        if most <= left - held:
            reserved = most
        elif not held and likely <= left:
            reserved = left
        else:
            wait_s = RETRY_AFTER_S if likely <= left else str(max(1, math.ceil(left_s)))
            found = f"found a request that may take {likely} where {left - held} are left; wait"
            raise RefusedError(429, f"expected at most {item}, of tokens; {found}", None, {"Retry-After": wait_s})
        self._reserved[key.name] = held + reserved
        return reserved

    def settle(self, key: Key, reserved: int, used: int) -> None:
        """Count the tokens of a request that is over, and return what was reserved for it."""
        if key.tokens and used:
            self._of_tokens.add(parse(key.tokens), key.name, used)
        if reserved:
            self._reserved[key.name] -= reserved
            if not self._reserved[key.name]:
                del self._reserved[key.name]


class _TokenWindows:
    # By the monotonic clock, which nobody sets: the fixed windows of limits end by the wall clock of their beginning.
    # A quota of another size goes on where the former one of that time was.

    def __init__(self) -> None:
        self._windows: dict[tuple[int, str], tuple[float, int]] = {}  # when it ends, and what is used

    def left(self, item: RateLimitItem, name: str) -> tuple[int, float]:
        """The tokens that are left, and in how many seconds all are."""
        ends_s, used = self._windows.get((item.get_expiry(), name), (0.0, 0))
        left_s = ends_s - time.monotonic()
        return (max(0, item.amount - used), left_s) if left_s > 0 else (item.amount, 0.0)

    def add(self, item: RateLimitItem, name: str, used: int) -> None:
        now_s, window = time.monotonic(), (item.get_expiry(), name)
        self._windows = {of: one for of, one in self._windows.items() if one[0] > now_s}
        ends_s, before = self._windows.get(window, (now_s + item.get_expiry(), 0))
        self._windows[window] = ends_s, before + used


def _headers(policies: list[str], left: list[str]) -> dict[str, str]:
    return {"RateLimit-Policy": ", ".join(policies), "RateLimit": ", ".join(left)} if policies else {}
