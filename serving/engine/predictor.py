"""Tensors in, tensors out: the checks and the one graph of an artefact of the task ``predict``."""

from collections.abc import Mapping, Sequence

import numpy as np

from attendant.errors import InputError
from serving.runtime.base import Array, Runner

Tensors = Mapping[str, Array]
Lengths = tuple[tuple[int, ...], ...]


def predict(runner: Runner, requests: Sequence[Tensors]) -> list[dict[str, Array] | InputError]:
    """Answer several requests, those of the same lengths in one run; a bad request does not touch the others.

    Args:
        runner: the graph ``model``, whose tensors all begin with the batch.
        requests: input name → array ``[B_i, …]``.

    Returns:
        For each request output name → array ``[B_i, …]``, or the error that it earned.
    """
    answers: dict[int, dict[str, Array] | InputError] = {}
    groups: dict[Lengths, list[int]] = {}
    for number, tensors in enumerate(requests):
        try:
            groups.setdefault(_lengths(runner, tensors), []).append(number)
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


def _run(runner: Runner, requests: Sequence[Tensors]) -> list[dict[str, Array]]:
    names = [spec.name for spec in runner.signature.inputs]
    outputs = runner.run({name: np.concatenate([tensors[name] for tensors in requests]) for name in names})
    ends = np.cumsum([len(tensors[names[0]]) for tensors in requests])[:-1]
    parts = {name: np.split(buffer.numpy(), ends) for name, buffer in outputs.items()}
    return [{name: parts[name][number] for name in parts} for number in range(len(requests))]
