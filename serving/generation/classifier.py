"""Images in, logits out: the checks and the one graph of an artefact of the task ``classify``.

Legend: B batch, C channels, K classes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from models.errors import InputError
from models.tensor_names import LOGITS, PIXELS
from serving.runtime.base import Array, Runner


def require_finite(pixels: Array) -> None:
    """Refuse images in which a pixel is NaN or infinite.

    Raises:
        InputError: one is; the message says how many.
    """
    wrong = int(pixels.size - np.isfinite(pixels).sum())
    if wrong:
        raise InputError("finite pixels", f"{wrong} NaN or infinite", "check how the image was decoded and scaled")


def classify(runner: Runner, requests: Sequence[Array]) -> list[Array | InputError]:
    """Classify several requests in one run of the graph; a bad request does not touch the others.

    Args:
        runner: the graph ``model``.
        requests: float32 ``[B_i, C, side, side]`` each.

    Returns:
        For each request its logits ``[B_i, K]``, or the error it earned.
    """
    verdicts: list[InputError | None] = [_error_of(pixels) for pixels in requests]
    good = [pixels for pixels, error in zip(requests, verdicts, strict=True) if error is None]
    answers = iter(_run(runner, good))
    return [next(answers) if error is None else error for error in verdicts]


def _error_of(pixels: Array) -> InputError | None:
    try:
        require_finite(pixels)
    except InputError as error:
        return error
    return None


def _run(runner: Runner, requests: Sequence[Array]) -> list[Array]:
    if not requests:
        return []
    logits = runner.run({PIXELS: np.concatenate(requests)})[LOGITS].numpy()
    ends = np.cumsum([len(pixels) for pixels in requests])
    return np.split(logits, ends[:-1])
