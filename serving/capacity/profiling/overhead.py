"""What an engine takes around its runs: what its steps take, less what a table says of these runs.

step(B rows)                   = decode(B) + step_s + B row_s
step that admits k requests    = encoder(k) + prompt(k) + step(k) + prompt_s + k request_s
"""

import time
from itertools import count

import numpy as np

from serving.capacity.profile import EngineOverhead
from serving.capacity.profiling.inputs import longest_input, request_of_length
from serving.capacity.profiling.timing import fit_nonnegative
from serving.capacity.table import TimeTable
from serving.engine.text_generation_model import TextGenerationModel

_ROUNDS = 7
_TOKENS = 24
_PROMPT = 8


def measure_engine(
    model: TextGenerationModel, decode: TimeTable, prompt: TimeTable | None, encoder: TimeTable | None
) -> EngineOverhead:
    """The overhead of a model's engine.

    Args:
        model: whose engine is stepped.
        decode: what runs of its decoder take.
        prompt: what runs take that read prompts, if there are any.
        encoder: what runs of its encoder take, if it has one.
    """
    at_once = prompt.sizes[-1] if prompt is not None else _PROMPT * model.engine.slots
    length = max(1, min(_PROMPT, longest_input(model) - 1, at_once))
    counts = [number for number in (1, 2, 4, 8, 16) if number <= min(model.engine.slots, at_once // length)]
    first, later = np.array([_measure_steps(model, number, length) for number in counts]).T
    attended = min((length if encoder is None else 1) + _TOKENS // 2, decode.lengths[-1])
    runs = [decode.at(number, attended) for number in counts]
    step_s, row_s = fit_nonnegative([(1, number) for number in counts], later - runs)
    reading = [
        (prompt.at(number * length, length) if prompt is not None else 0.0)
        + (encoder.at(number, length) if encoder is not None else 0.0)
        for number in counts
    ]
    rest = first - np.array(reading) - np.array([run + step_s + row_s * n for run, n in zip(runs, counts, strict=True)])
    prompt_s, request_s = fit_nonnegative([(1, number) for number in counts], rest.tolist())
    return EngineOverhead(step_s=step_s, row_s=row_s, prompt_s=prompt_s, request_s=request_s)


def _measure_steps(model: TextGenerationModel, number: int, length: int) -> tuple[float, float]:
    seeds, first, later = count(), list[float](), list[float]()
    for _ in range(_ROUNDS):
        rng = np.random.default_rng(next(seeds))
        for _ in range(number):
            model.engine.submit(request_of_length(model, length, _TOKENS, rng), lambda output: None)
        taken = []
        while not model.engine.is_idle:
            began_s = time.perf_counter()
            model.engine.step()
            taken.append(time.perf_counter() - began_s)
        first.append(taken[0])
        later.append(float(np.median(taken[1:-1])))
    return float(np.median(first)), float(np.median(later))
