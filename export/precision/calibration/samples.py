"""Real inputs to calibrate with: those that a shipped checkpoint was trained on, or files that a reader gives.

A sample is what the first graph of a model is fed, a batch of 1; of a language model, the token ids of a prompt.
"""

import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from attendant.errors import InputError
from attendant.images import bytes_from_file, pixels_from_file
from attendant.signature import GraphSignature
from attendant.tasks import resolve
from attendant.tensor_names import PIXELS
from attendant.tokenization import load_tokenizer
from export.precision.calibration.arrays import read_arrays
from export.precision.calibration.files import sample_files
from models.checkpoints.store import Checkpoint
from models.tasks.from_bytes import example_in_bytes, takes_bytes
from models.train.registry import TASKS
from serving.runtime.base import Array

MOST = 128
"""Samples; of more, as many are taken, evenly spread."""

Sample = dict[str, Array]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationSamples:
    """What a model is calibrated with.

    Attributes:
        source: where the samples come from.
        feeds: input name → array, for each sample.
    """

    source: str
    feeds: tuple[Sample, ...]

    @property
    def sha256(self) -> str:
        """A hash over every sample."""
        digest = hashlib.sha256()
        for name, array in (pair for feed in self.feeds for pair in sorted(feed.items())):
            digest.update(f"{name} {array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


def samples_for(checkpoint: Checkpoint, signature: GraphSignature, path: Path | None) -> CalibrationSamples:
    """Read the samples for a model.

    Args:
        checkpoint: the model.
        signature: of its first graph.
        path: a folder of images, one image, a file with a text in each line, or an ``.npz`` of tensors whose first
            axis counts samples; without it, the data that a shipped checkpoint was trained on.

    Raises:
        InputError: there are none, or they are none of this model's.
    """
    if path is None:
        return CalibrationSamples(
            source=f"training data of {checkpoint.name}", feeds=_training_samples(checkpoint, signature)
        )
    if not path.exists():
        raise InputError("a file or a folder of samples", f"nothing at {path}", "correct --calibration")
    if path.suffix == ".npz":
        feeds = _tensors(path, signature)
    elif signature.inputs[0].name == PIXELS:
        feeds = tuple(_image(checkpoint, signature, file) for file in _spread_evenly(sample_files(path)))
    else:
        feeds = tuple(_text(checkpoint, line) for line in _spread_evenly(_lines(path)))
    if not feeds:
        raise InputError(f"at least one sample in {path}", "none", "give a file or a folder with real inputs")
    broken = [feed for feed in feeds if not all(np.isfinite(array).all() for array in feed.values())]
    if broken:
        raise InputError(f"finite numbers in {path}", f"NaN or infinity in {len(broken)} samples", "correct the file")
    return CalibrationSamples(source=path.name, feeds=feeds)


def _training_samples(checkpoint: Checkpoint, signature: GraphSignature) -> tuple[Sample, ...]:
    task = TASKS.get(checkpoint.name)
    if task is None or task.family != checkpoint.family.name:
        raise InputError(
            f"inputs to calibrate {checkpoint.name} with, whose training data is not here",
            "no --calibration",
            "name a folder of images, a file with a text in each line, or an .npz of tensors with --calibration",
        )
    examples = task.trained_on(MOST)
    if isinstance(examples, np.ndarray):
        return tuple(_pixels(checkpoint, signature, pixels) for pixels in examples)
    return tuple(_text(checkpoint, text) for text in examples)


def _pixels(checkpoint: Checkpoint, signature: GraphSignature, pixels: Array) -> Sample:
    if not takes_bytes(signature):
        return {PIXELS: pixels[None]}
    inputs = example_in_bytes({"inputs": {PIXELS: pixels.tolist()}}, checkpoint.details["preprocessing"])["inputs"]
    return {PIXELS: np.array(inputs[PIXELS], dtype=np.uint8)[None]}


def _image(checkpoint: Checkpoint, signature: GraphSignature, file: Path) -> Sample:
    preprocessing = checkpoint.details.get("preprocessing")
    if preprocessing is None:
        raise InputError(
            f"a checkpoint that says how an image is prepared, to calibrate with {file.name}",
            "no preprocessing in its configuration",
            "give an .npz of tensors with --calibration",
        )
    read: Callable[[Path, Any], Array] = bytes_from_file if takes_bytes(signature) else pixels_from_file
    return {PIXELS: read(file, preprocessing)[None]}


def _lines(path: Path) -> list[str]:
    try:
        return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"UTF-8 text, one sample a line, at {path}", str(error), "correct --calibration") from error


def _text(checkpoint: Checkpoint, text: str) -> Sample:
    details = checkpoint.serving_details()
    if checkpoint.folder is None:
        raise InputError(
            f"a checkpoint with a tokenizer, to calibrate with {text[:40]!r}",
            f"the preset {checkpoint.name}, which has none",
            "give an .npz of tensors with --calibration",
        )
    tokenizer = load_tokenizer(checkpoint.folder, details.get("tokenizer"))
    sample: Sample = resolve(checkpoint.family.task.calibration)(tokenizer.encode(text, sys.maxsize), details)
    return sample


def source_sample(tokens: list[int], details: dict[str, Any]) -> Sample:
    """A source, all of it seen."""
    ids = np.array([tokens[: details["max_source_length"]]])
    return {"source_ids": ids, "source_mask": np.ones_like(ids, dtype=bool)}


def token_sample(tokens: list[int], details: dict[str, Any]) -> Sample:
    """A text for an encoder, all of it seen."""
    ids = np.array([tokens[: details["max_length"]]])
    return {"token_ids": ids, "mask": np.ones_like(ids, dtype=bool), "token_types": np.zeros_like(ids)}


def prompt_sample(tokens: list[int], details: dict[str, Any]) -> Sample:
    """A prompt that leaves room for a token."""
    return {"token_ids": np.array([tokens[: details["max_length"] - 1]])}


def _tensors(path: Path, signature: GraphSignature) -> tuple[Sample, ...]:
    arrays = read_arrays(path, signature.inputs[0].name)
    specs = {spec.name: spec for spec in signature.inputs}
    wanted = {"token_ids"} if "start" in specs else specs.keys()
    counts = {array.shape[:1] for array in arrays.values()}
    if arrays.keys() != wanted or len(counts) != 1 or () in counts:
        found = {name: list(array.shape) for name, array in arrays.items()}
        raise InputError(
            f"tensors {sorted(wanted)} with as many samples each in {path}", str(found), "correct the file"
        )
    for name, array in arrays.items():
        signature.check(specs[name], array.dtype.name, (1, *array.shape[1:]))
    return tuple(
        {name: array[number : number + 1] for name, array in arrays.items()}
        for number in _spread_evenly(range(*counts.pop()))
    )


def _spread_evenly(every: Sequence[T]) -> Iterator[T]:
    chosen = np.linspace(0, len(every) - 1, min(len(every), MOST), dtype=int)
    return (every[int(number)] for number in chosen)
