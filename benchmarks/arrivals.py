"""What an arrival waits, and what it makes others wait: the time to the first token and between tokens by chunk budget.

    python benchmarks/arrivals.py [--precision P] [--rate R] [--seconds S] [--out DIR] [--scratch DIR]

In process, two threads, random weights of GPT-2 small's shape; every budget meets the same arrivals.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.generation.engines import loaded  # noqa: E402
from benchmarks.generation.gpt2_small import gpt2_small  # noqa: E402
from benchmarks.generation.mixed_load import mixed  # noqa: E402
from benchmarks.generation.waiting_report import plot, waiting_table  # noqa: E402
from benchmarks.generation.written import preamble, write_result  # noqa: E402
from serving.engine.settings import EngineSettings  # noqa: E402

BUDGETS = (32, 64, 128, 256, 512)
THREADS = 2


def main() -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--precision", default="int8", help="of the graph")
    parser.add_argument("--rate", type=float, default=1.5, help="prompts that arrive a second")
    parser.add_argument("--seconds", type=float, default=40.0, help="for which prompts arrive, for each budget")
    parser.add_argument("--out", type=Path, help="folder for <date>-arrivals.md, .json and .png; none if absent")
    parser.add_argument("--scratch", type=Path, help="folder for artefacts; kept if given")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        artefact = gpt2_small(asked.scratch or Path(temporary), asked.precision)
        model = loaded(artefact, EngineSettings(max_num_seqs=1), THREADS)
        waiting = [asdict(mixed(model, budget, asked.rate, asked.seconds)) for budget in BUDGETS]
    found: dict[str, Any] = {"waiting": waiting, "rate": asked.rate, "seconds": asked.seconds}
    text = "\n".join([*preamble("Arrivals", "benchmarks/arrivals.py", sys.argv[1:]), *waiting_table(found)])
    if asked.out is not None:
        stem = write_result(asked.out, "arrivals", text, found)
        plot(found["waiting"], stem.with_suffix(".png"))
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
