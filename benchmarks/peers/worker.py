"""One peer in a process of its own: loads a model, then answers one request a line until its input ends.

    python benchmarks/peers/worker.py PEER.py '{"folder": …, "threads": 2, …}'

The peer is a file with ``load(folder, threads, **options)``, which returns a callable. A request is a JSON object of
the callable's arguments; the answer gives the seconds of the call, those of the processor that this process used
meanwhile, and what the call returned.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import time
from typing import Any


def main() -> None:
    """Load, say so, and answer."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print must not come between answers
    peer, options = sys.argv[1], json.loads(sys.argv[2])
    began = time.perf_counter()
    run = runpy.run_path(peer)["load"](**options)
    answer = {"load_s": time.perf_counter() - began}
    answers.write(json.dumps(answer) + "\n")
    for line in sys.stdin:
        answers.write(json.dumps(_timed(run, json.loads(line))) + "\n")


def _timed(run: Any, request: dict[str, Any]) -> dict[str, Any]:
    spent, began = time.process_time(), time.perf_counter()
    returned = run(**request)
    return {
        "seconds": time.perf_counter() - began,
        "processor_s": time.process_time() - spent,
        "returned": returned,
        "peak_mb": _peak_mb(),
    }


def _peak_mb() -> float:
    with open("/proc/self/status", encoding="ascii") as status:  # noqa: PTH123 - stdlib only, in any environment
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))


if __name__ == "__main__":
    main()
