"""The verb that plans: how many replicas a demand takes, by simulating our own scheduler (docs/guides/capacity.md)."""

import sys
from json import dumps
from pathlib import Path

from tyro.conf import Positional

from clients.load.analysis.slo import parse_objectives
from serving.capacity.report import print_plan


def plan(
    profile: Positional[Path],
    demand: Positional[Path],
    rate: str | None = None,
    slo: str | None = None,
    max_num_seqs: int = 16,
    max_queue_size: int = 256,
    max_prefill_tokens: int = 256,
    requests: int = 10_000,
    seed: int = 0,
    json: bool = False,
    exploratory: bool = False,
) -> int:
    """Say how many replicas a demand takes, what they cost, and where one of them saturates.

    Args:
        profile: what one replica takes for its work: a file of `attendant capacity measure`, or written by hand.
        demand: how many requests come, how long they are, and their objectives, a TOML file (docs/guides/capacity.md).
        rate: instead of the demand's, as 20/s or 1000000/h.
        slo: objectives instead of the demand's, as ttft_p95<200ms,itl_p95<50ms.
        max_num_seqs: sequences that a replica decodes at once.
        max_queue_size: requests that may wait for a slot; one more is refused.
        max_prefill_tokens: most positions of prompts in a step.
        requests: that are simulated for each number of replicas.
        seed: of arrivals and lengths.
        json: print everything as JSON instead of a table.
        exploratory: for a look: plan with a profile whose fit errs by more than 20 % too.
    """
    # A plan alone needs the engine: the other verbs that this module could be imported with do not.
    from serving.capacity.plan import plan_of_files

    found = plan_of_files(
        profile,
        demand,
        parse_objectives,
        lambda line: sys.stderr.write(f"{line}\n"),
        rate=rate,
        slo=slo,
        requests=requests,
        seed=seed,
        exploratory=exploratory,
        max_num_seqs=max_num_seqs,
        max_queue_size=max_queue_size,
        max_prefill_tokens=max_prefill_tokens,
    )
    if json:
        sys.stdout.write(dumps(found.to_json(), indent=2) + "\n")
    else:
        print_plan(found.to_json(), [one.text for one in parse_objectives(found.demand.slo)])
    return 0
