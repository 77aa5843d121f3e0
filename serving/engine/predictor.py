"""Tensors in, tensors out: the checks and the one graph of an artefact of the task ``predict``."""

from collections.abc import Mapping, Sequence

import numpy as np

from attendant.errors import AttendantError, InputError
from serving.engine.scheduler import failure
from serving.runtime.base import Array, Runner
from serving.runtime.index_bounds import require_indices

Tensors = Mapping[str, Array]
Lengths = tuple[tuple[int, ...], ...]


def predict(
    runner: Runner, requests: Sequence[Tensors], below: Mapping[str, int]
) -> list[dict[str, Array] | AttendantError]:
    """Answer several requests, those of the same lengths in one run; a bad request does not touch the others.

    Args:
        runner: the graph ``model``, whose tensors all begin with the batch.
        requests: input name → array ``[B_i, …]``.
        below: for integer inputs, the number that all their values are below.

    Returns:
        For each request output name → array ``[B_i, …]``, or the error that it earned.
    """
    answers: dict[int, dict[str, Array] | AttendantError] = {}
    groups: dict[Lengths, list[int]] = {}
    for number, tensors in enumerate(requests):
        try:
            lengths = _lengths(runner, tensors)
            require_indices({name: array for name, array in tensors.items() if name in below and array.size}, below)
            groups.setdefault(lengths, []).append(number)
        except InputError as error:
            answers[number] = error
    for members in groups.values():
        answers.update(zip(members, _run(runner, [requests[number] for number in members]), strict=True))
    return [answers[number] for number in range(len(requests))]


def _lengths(runner: Runner, tensors: Tensors) -> Lengths:
    specs = runner.signature.inputs
    sizes: dict[str, int] = {}
    for spec in specs:
        array = tensors[spec.name]
        runner.signature.check(spec, array.dtype.name, array.shape)
        for axis, size in zip(spec.axes, array.shape, strict=True):
            if isinstance(axis, str) and sizes.setdefault(axis, size) != size:
                raise InputError(
                    f"the same {axis!r} in every input, {sizes[axis]}",
                    f"{size} in {spec.name!r}",
                    "make the inputs agree",
                )
    return tuple(tensors[spec.name].shape[1:] for spec in specs)


def _run(runner: Runner, requests: Sequence[Tensors]) -> Sequence[dict[str, Array] | AttendantError]:
    names = [spec.name for spec in runner.signature.inputs]
    try:
        outputs = runner.run({name: _joined([tensors[name] for tensors in requests]) for name in names})
    except Exception as error:  # whatever a runtime raises; one request's mistake must not be the others'
        if len(requests) > 1:
            return [answer for one in requests for answer in _run(runner, [one])]
        return [_earned(error)]
    ends = np.cumsum([len(tensors[names[0]]) for tensors in requests])[:-1]
    parts = {name: np.split(buffer.numpy(), ends) for name, buffer in outputs.items()}
    return [{name: parts[name][number] for name in parts} for number in range(len(requests))]


def _joined(arrays: Sequence[Array]) -> Array:
    joined: Array = np.concatenate(arrays)
    # A client's bytes may hold a truth value of 7, which a graph would calculate with.
    return joined.view(np.uint8) != 0 if joined.dtype == np.bool_ else joined


def _earned(error: Exception) -> AttendantError:
    # What a graph cannot compute of one request's numbers, as an index that it makes of them, is that request's own
    # mistake. A graph that can compute nothing fails at its example, too, which is asked in any case.
    found = failure(error, "the graph")
    if isinstance(error, AttendantError | MemoryError | OSError) or "alloc" in str(error).lower():  # of all runtimes
        return found
    return InputError("numbers that the model can compute with", found.found, "correct them")
