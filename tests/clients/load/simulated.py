"""Runs that no server made: a queue with one clerk, or many, from a seed."""

import numpy as np

from clients.load.record import GeneratorUsage, LoadRun, RequestOutcome, RequestRecord, ServerCounts

ENVIRONMENT = {"machine": "2 cores", "server": "simulated", "python": "3.11"}


def records(rate=50.0, count=1000, service_s=0.01, tokens=0, token_s=0.002, seed=0, warm=0, lag_s=0.0, jitter=0.2):
    """A Poisson stream to one clerk; answers of tokens stream on after the first without holding the clerk."""
    draws = np.random.default_rng(seed)
    scheduled = np.cumsum(draws.exponential(1 / rate, count))
    found, free = [], 0.0
    for number, at in enumerate(scheduled):
        slower = 1 + 4 * max(0.0, 1 - number / warm) if warm else 1
        begins = max(at + lag_s, free)
        free = begins + service_s * slower * draws.uniform(1 - jitter, 1 + jitter)
        later = free + np.cumsum(token_s * draws.uniform(0.7, 1.3, max(tokens - 1, 0)))
        responses = (float(free), *map(float, later))
        found.append(
            RequestRecord(
                number=number,
                workload="chat" if tokens else "digits",
                scheduled_s=float(at),
                sent_s=float(at + lag_s),
                ended_s=responses[-1],
                responses_s=responses,
                tokens=(1,) * len(responses) if tokens else (0,),
                input_tokens=12 if tokens else 0,
                images=0 if tokens else 1,
                outcome=RequestOutcome.OK,
            )
        )
    return found


def run_of(found, cpu_share=0.2, lags_s=(0.0002,) * 100, server="fit", in_process_s=(0.008,) * 20, **scenario):
    """A run of such records, whose server counted what they took but for half a millisecond each."""
    took = sum(one.ended_s - one.sent_s for one in found)
    fit = ServerCounts(
        requests=len(found), failures=0, queue_s=0.3 * took, compute_s=max(0.7 * took - 5e-4 * len(found), 0.0)
    )
    return LoadRun(
        scenario={"name": "simulated", "arrivals": {"kind": "poisson", "rate": 50.0}, **scenario},
        records=tuple(found),
        generator=GeneratorUsage(cpu_share=cpu_share, loop_lags_s=tuple(lags_s), machine_share=0.4),
        server=fit if server == "fit" else server,
        in_process_s=tuple(in_process_s),
        duration_s=max(one.ended_s for one in found),
        started_at="2026-11-21T20:00:00+00:00",
        command="attendant load run scenario.toml",
        environment=ENVIRONMENT,
    )
