"""Callers who each send the next request as soon as the last one is answered, on a virtual clock."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from serving.simulation.replica import Arrival, Replica
from serving.simulation.sending import Heard


def closed_loop(replica: Replica, callers: int, requests: int, prompt: int, answer: int) -> list[Heard]:
    """Let callers send requests that are all alike, to the end of the last answer.

    Args:
        replica: that answers, of served costs of its own.
        callers: at once.
        requests: of them all.
        prompt: tokens of each.
        answer: tokens of each.
    """
    way_s = replica.profile.served.request_s
    coming, running = [0.0] * callers, list[Heard]()
    heapify(coming)
    left = requests
    while left or running:
        busy_s = 0.0 if replica.engine.is_idle else replica.profile.served.request_busy_s
        if left and coming and coming[0] + way_s + busy_s <= replica.clock.now_s:
            running.append(replica.submit(Arrival(at_s=heappop(coming), prompt=prompt, answer=answer)))
            left -= 1
        elif not replica.engine.is_idle:
            replica.step()
        else:
            next_s = coming[0] + way_s if left and coming else replica.sending.busy_until_s
            replica.clock.idle_until(next_s)
        for heard in [one for one in running if one.is_over and not one.held]:
            running.remove(heard)
            heappush(coming, heard.responses_s[-1])
    return replica.simulated.heard
