"""From the shipped checkpoints to answers over gRPC: export, a first answer, parity, Triton, questions, one table."""

# What imports torch or takes time is imported by the stages: the first of them says at once what it does.

import os
import signal
import sys
from functools import partial
from pathlib import Path

INTERRUPTED_STATUS = 130
if __name__ == "__main__":  # until there is something to clean up, and also while the next lines are imported
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED_STATUS))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # the Makefile blocks it until here

from attendant.cli import run  # noqa: E402
from attendant.folders import clear_left_behind  # noqa: E402
from commands.quickstart.stages import MODELS, run_stages  # noqa: E402
from commands.quickstart.supervisor import supervise  # noqa: E402
from serving.triton.server.shared_memory import remove_dead_regions  # noqa: E402
from serving.triton.server.workspace import remove_dead_environments  # noqa: E402


def quickstart(build: Path = Path("build"), repository: Path = Path("model_repository"), texts: int = 500) -> int:
    """Export, verify, serve and ask the shipped models, and compare every answer with PyTorch's.

    Args:
        build: where the exported artefacts go.
        repository: the Triton model repository to write.
        texts: how many held-out dates, and how many pairs of digits, to ask.
    """
    return supervise(partial(run_stages, build, repository, texts), partial(_clean_up, build, repository))


def _clean_up(build: Path, repository: Path) -> None:
    remove_dead_regions()
    remove_dead_environments()
    for target in (*(build / name for name in MODELS), repository):
        clear_left_behind(target)
    sys.stderr.write(f"stopped; what was exported before is whole, and stays in {build}\n")


if __name__ == "__main__":
    run("python -m commands.quickstart", str(__doc__), {"run": quickstart}, ["run", *sys.argv[1:]])
