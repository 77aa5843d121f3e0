"""What is tuned: slots, positions of prompts in a step, threads and processes of a model, in every combination."""

import os
from dataclasses import dataclass, replace
from itertools import product

from attendant.errors import ConfigError
from serving.engine.settings import EngineSettings

MOST_CANDIDATES = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One way to serve a model.

    Attributes:
        max_num_seqs: slots of a process.
        max_prefill_tokens: most positions of prompts in a step.
        threads: of a run.
        instances: processes.
    """

    max_num_seqs: int = EngineSettings().max_num_seqs
    max_prefill_tokens: int = EngineSettings().max_prefill_tokens
    threads: int = 1
    instances: int = 1

    @property
    def flags(self) -> str:
        """The same as flags of ``attendant repository``."""
        names = ("threads", "instances", "max_num_seqs", "max_prefill_tokens")
        return " ".join(f"--{name.replace('_', '-')} {getattr(self, name)}" for name in names)

    def engine(self, settings: EngineSettings) -> EngineSettings:
        """Those settings, with its slots and prompts."""
        return replace(settings, max_num_seqs=self.max_num_seqs, max_prefill_tokens=self.max_prefill_tokens)


DEFAULTS = Candidate()


def list_candidates(
    max_num_seqs: tuple[int, ...],
    max_prefill_tokens: tuple[int, ...],
    threads: tuple[int, ...],
    instances: tuple[int, ...],
    cores: int | None = None,
) -> list[Candidate]:
    """Every combination whose threads have a core each; the defaults first, with which the others are compared.

    Args:
        max_num_seqs: slots to try.
        max_prefill_tokens: positions of prompts in a step to try.
        threads: of a run to try; the powers of two that fit if there are none.
        instances: processes to try; likewise.
        cores: of the machine; those of this process if not given.

    Raises:
        ConfigError: a value is below 1, there are too many combinations, or none fits the machine.
    """
    cores = cores or len(os.sched_getaffinity(0))
    powers = tuple(2**power for power in range(cores.bit_length()))
    axes = [max_num_seqs, max_prefill_tokens, threads or powers, instances or powers]
    if not all(axes) or min(map(min, axes)) < 1:
        least = str(min(map(min, axes))) if all(axes) else "none"
        raise ConfigError("values of at least 1 to try", least, "correct it")
    found = [
        Candidate(max_num_seqs=slots, max_prefill_tokens=prefill, threads=thread, instances=instance)
        for slots, prefill, thread, instance in product(*map(sorted, map(set, axes)))
        if thread * instance <= cores
    ]
    if not found:
        raise ConfigError(
            f"threads × instances of at most {cores}, the cores", "more in every combination", "try fewer"
        )
    if len(found) > MOST_CANDIDATES:
        raise ConfigError(f"at most {MOST_CANDIDATES} combinations", str(len(found)), "try fewer values")
    return [DEFAULTS, *(one for one in found if one != DEFAULTS)]
