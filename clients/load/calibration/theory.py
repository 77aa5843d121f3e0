"""What queues are known to do: the times that a generator has to find where they are known.

    u = λ S                                 utilisation, of arrivals at rate λ and a mean service S
    M/M/1   E[T] = S / (1 − u)              P(T > t) = exp(−t (1 − u) / S)
    M/D/1   E[T] = S + u S / 2 (1 − u)      P(W ≤ t) = (1 − u) Σ_{k=0}^{⌊t/S⌋} [λ (k S − t)]ᵏ / k! · exp(−λ (k S − t))
    any     T_n = S_n + max(0, T_(n−1) − (t_n − t_(n−1)))

T is the time from arrival to end, W = T − S the time in the queue.

Source: L. Kleinrock, "Queueing Systems I", 1975, sections 3.2 and 5.8; A. K. Erlang 1909 (M/D/1); D. Lindley 1952.
"""

from math import exp, floor, lgamma, log

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.float64]


def sojourns(arrivals_s: Times, services_s: Times) -> Times:
    """How long each request of a queue takes, in seconds ``[N]``, served one at a time in the order of arrival.

    Args:
        arrivals_s: in order, ``[N]``.
        services_s: of each, ``[N]``.
    """
    free_s, found = -np.inf, np.empty(len(arrivals_s))
    for number, (arrival_s, service_s) in enumerate(zip(arrivals_s.tolist(), services_s.tolist(), strict=True)):
        free_s = max(free_s, arrival_s) + service_s
        found[number] = free_s - arrival_s
    return found


def mean_mm1(rate: float, service_s: float) -> float:
    """The mean time in an M/M/1 queue, in seconds."""
    return service_s / (1 - rate * service_s)


def quantile_mm1(rate: float, service_s: float, share: float) -> float:
    """The time in an M/M/1 queue that a share of requests stays below, in seconds."""
    return -log(1 - share) * mean_mm1(rate, service_s)


def mean_md1(rate: float, service_s: float) -> float:
    """The mean time in an M/D/1 queue, in seconds."""
    used = rate * service_s
    return service_s * (1 + used / (2 * (1 - used)))


def quantile_md1(rate: float, service_s: float, share: float) -> float:
    """The time in an M/D/1 queue that a share of requests stays below, in seconds, by bisection."""
    low, high = 0.0, service_s
    while waiting_md1(rate, service_s, high) < share:
        high *= 2
    while high - low > 1e-9 * service_s:
        middle = (low + high) / 2
        low, high = (middle, high) if waiting_md1(rate, service_s, middle) < share else (low, middle)
    return service_s + high


def waiting_md1(rate: float, service_s: float, time_s: float) -> float:
    """The share of an M/D/1 queue's requests that wait no longer; exact to some digits below twenty services."""
    terms = [1.0 * exp(rate * time_s)]
    for number in range(1, floor(time_s / service_s) + 1):
        early = rate * (time_s - number * service_s)
        if early > 0:
            terms.append((-1) ** number * exp(number * log(early) - lgamma(number + 1) + early))
    return (1 - rate * service_s) * sum(terms)
