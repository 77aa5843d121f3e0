"""One peer in a process of its own: loads a model, then answers one request a line until its input ends.

    python -m benchmarks.peers.worker PEER.py '{"folder": …, "threads": 2, …}'

The peer is a file with ``load(folder, threads, **options)``, which returns a callable. A request is a JSON object of
the callable's arguments; the answer gives the seconds of the call, those of the processor that this process used
meanwhile, and what the call returned. One that generates returns ``tokens`` and ``steps_s``: seconds from the call's
start at which each step had its tokens.
"""

import json
import os
import runpy
import sys
import time
from typing import Any


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print must not come between answers
    peer, options = sys.argv[1], json.loads(sys.argv[2])
    began = time.perf_counter()
    run = runpy.run_path(peer)["load"](**options)
    answer: dict[str, Any] = {"load_s": time.perf_counter() - began}
    answers.write(json.dumps(answer) + "\n")
    for line in sys.stdin:
        request = json.loads(line)
        used, began = time.process_time(), time.perf_counter()
        returned = run(**request)
        answer = {"seconds": time.perf_counter() - began, "processor_s": time.process_time() - used}
        with open("/proc/self/status", encoding="ascii") as status:  # noqa: PTH123 - stdlib only, in any environment
            peak_mb = next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))
        answers.write(json.dumps({**answer, "returned": returned, "peak_mb": peak_mb}) + "\n")


if __name__ == "__main__":
    main()
