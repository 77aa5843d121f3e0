"""Images in, logits out, and attention maps for those who ask: the checks and graphs of the task ``classify``.

Legend: B batch, C channels, K classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attendant.errors import ArtefactError, AttendantError, InputError
from attendant.manifest import Manifest
from attendant.parameters import Device, Runtime
from attendant.tensor_names import EXPLAINED, PIXELS
from serving.engine.output.alignment import NOT_EXPLAINED
from serving.runtime.base import Array, Runner
from serving.runtime.create_runners import create_runners

Answer = dict[str, Array] | AttendantError
"""Output name → array of the request's rows; or the error that it earned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """What one request asks.

    Attributes:
        pixels: float32 ``[B, C, height, width]``.
        explain: whether attention maps are returned with the logits.
    """

    pixels: Array
    explain: bool = False


def require_finite(pixels: Array) -> None:
    """Refuse images in which a pixel is NaN or infinite.

    Raises:
        InputError: one is; the message says how many.
    """
    wrong = int(pixels.size - np.isfinite(pixels).sum())
    if wrong:
        raise InputError("finite pixels", f"{wrong} NaN or infinite", "check how the image was decoded and scaled")


class ImageClassifier:
    """One artefact of the task ``classify``, loaded; the graph ``explained`` only once somebody asks for it.

    Attributes:
        runners: graph name → what is loaded.
    """

    def __init__(
        self, folder: Path, manifest: Manifest, threads: int = 1, runtime: Runtime = "auto", device: Device = "auto"
    ) -> None:
        """Load the plain graph.

        Raises:
            ArtefactError: a file is missing or not what the manifest says.
        """
        self.runners = create_runners(folder, manifest, threads, runtime, device)
        self._explains = any(signature.name == EXPLAINED for signature in manifest.graphs)

    def answer(self, requests: Sequence[Images | InputError]) -> list[Answer]:
        """Answer requests of both kinds, those of each in one run; one that is an error already keeps it."""
        answers: dict[int, Answer] = {row: one for row, one in enumerate(requests) if isinstance(one, InputError)}
        for explain, run in ((False, self._classify), (True, self._explain)):
            pixels_of = {
                row: one.pixels
                for row, one in enumerate(requests)
                if isinstance(one, Images) and one.explain is explain
            }
            if pixels_of:
                answers |= zip(pixels_of, run(list(pixels_of.values())), strict=True)
        return [answers[row] for row in range(len(requests))]

    def _classify(self, requests: Sequence[Array]) -> list[Answer]:
        return classify(self.runners["model"], requests)

    def _explain(self, requests: Sequence[Array]) -> list[Answer]:
        if not self._explains:
            return [InputError(*NOT_EXPLAINED)] * len(requests)
        try:
            return classify(self.runners[EXPLAINED], requests)
        except ArtefactError as error:  # found at the first such request, and no fault of the plain ones
            return [error] * len(requests)


def classify(runner: Runner, requests: Sequence[Array]) -> list[Answer]:
    """Classify several requests in one run of a graph; a bad request does not touch the others.

    Args:
        runner: the graph ``model`` or ``explained``.
        requests: float32 ``[B_i, C, side, side]`` each.

    Returns:
        For each request the outputs of the graph, ``logits`` ``[B_i, K]`` among them, or the error it earned.
    """
    errors = [_error_of(runner, pixels) for pixels in requests]
    good = [pixels for pixels, error in zip(requests, errors, strict=True) if error is None]
    answers = iter(_run(runner, good))
    return [next(answers) if error is None else error for error in errors]


def _error_of(runner: Runner, pixels: Array) -> InputError | None:
    # Triton checks shapes too, and lets one pass whose product does not fit into 64 bits.
    signature = runner.signature
    try:
        signature.check(signature.input(PIXELS), pixels.dtype.name, pixels.shape)
        require_finite(pixels)
    except InputError as error:
        return error
    return None


def _run(runner: Runner, requests: Sequence[Array]) -> list[dict[str, Array]]:
    if not requests:
        return []
    ends = np.cumsum([len(pixels) for pixels in requests])[:-1]
    outputs = runner.run({PIXELS: np.concatenate(requests)})
    parts = {name: np.split(buffer.numpy(), ends) for name, buffer in outputs.items()}
    return [{name: arrays[row] for name, arrays in parts.items()} for row in range(len(requests))]
