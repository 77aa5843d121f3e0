"""From samples to ranges: every graph of a model is asked as a server asks it, decoders by real decodes.

Legend: T new positions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attendant.errors import InputError
from attendant.tensor_names import LOGITS
from export.graph.exported_graph import ExportedGraph
from export.precision.calibration.observed import ObservedRunner
from export.precision.calibration.samples import CalibrationSamples, Sample, samples_for
from models.checkpoints.store import Checkpoint
from serving.runtime.base import Array, Buffer, Runner
from serving.runtime.cached_decoder import CachedDecoder
from serving.runtime.ort.runner import OrtRunner

METHOD = "largest magnitude"
MOST_STEPS = 32
"""Of one decode: longer ones find no ranges that shorter ones do not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What was learned of one graph.

    Attributes:
        samples: what it was asked.
        largest: activation or cache → the largest magnitude in any run.
    """

    samples: CalibrationSamples
    largest: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        """The calibration as plain JSON values, without the samples themselves."""
        floats = [name for name, array in self.samples.feeds[0].items() if array.dtype.kind == "f"]
        every = {name: np.concatenate([feed[name].ravel() for feed in self.samples.feeds]) for name in floats}
        return {
            "source": self.samples.source,
            "samples": len(self.samples.feeds),
            "sha256": self.samples.sha256,
            "method": METHOD,
            "inputs": {
                name: {
                    "mean": float(numbers.mean(dtype=np.float64)),
                    "deviation": float(numbers.std(dtype=np.float64)),
                    "smallest": float(numbers.min()),
                    "largest": float(numbers.max()),
                }
                for name, numbers in every.items()
            },
            "largest": self.largest,
        }


def calibrate(
    checkpoint: Checkpoint, folder: Path, graphs: Sequence[ExportedGraph], graph: ExportedGraph, path: Path | None
) -> Calibration:
    """Run samples through a float32 graph, and through the encoder before it.

    Args:
        checkpoint: the model.
        folder: where the files of its graphs lie.
        graphs: all of them, in the order in which a request passes them.
        graph: the one to calibrate.
        path: as :func:`export.precision.calibration.samples.samples_for` takes it.

    Raises:
        InputError: there are no samples, the graph cannot be run on one, or an activation is not finite on it.
    """
    samples = samples_for(checkpoint, graphs[0].signature, path)
    observed = ObservedRunner(folder, graph)
    for _ in _run_samples(observed, folder, graphs, samples.feeds, checkpoint.serving_details()):
        pass  # the runner observes
    return Calibration(samples=samples, largest=_largest(observed.largest))


def calibrate_caches(
    checkpoint: Checkpoint, folder: Path, graphs: Sequence[ExportedGraph], graph: ExportedGraph, path: Path | None
) -> Calibration:
    """As :func:`calibrate`, of what a decoder remembers: each cache, as it is after every decode.

    Args:
        checkpoint: the model.
        folder: where the files of its graphs lie.
        graphs: all of them, in the order in which a request passes them.
        graph: the decoder.
        path: as :func:`export.precision.calibration.samples.samples_for` takes it.

    Raises:
        InputError: there are no samples, or a key or value is not finite on them.
    """
    samples = samples_for(checkpoint, graphs[0].signature, path)
    runner = OrtRunner(folder / f"{graph.name}.onnx", graph.signature)
    magnitudes: dict[str, list[float]] = {name: [] for name in graph.signature.aliases.values()}
    for decoder in _run_samples(runner, folder, graphs, samples.feeds, checkpoint.serving_details()):
        for name, cache in ({} if decoder is None else decoder.caches).items():
            magnitudes[name].append(float(np.abs(cache.numpy()).max()))
    return Calibration(samples=samples, largest=_largest(magnitudes))


def _run_samples(
    runner: Runner,
    folder: Path,
    graphs: Sequence[ExportedGraph],
    samples: Sequence[Sample],
    details: Mapping[str, Any],
) -> Iterator[CachedDecoder | None]:
    graph = runner.signature.name
    signature = next((one.signature for one in graphs if one.name == "encoder"), None)
    encoder = None if signature is None or graph == "encoder" else OrtRunner(folder / "encoder.onnx", signature)
    rng = np.random.default_rng(0)
    for number, sample in enumerate(samples):
        try:
            yield _run_sample(runner, encoder, sample, details, rng)
        except RuntimeError as error:  # of ONNX Runtime: a token that is in no vocabulary
            raise InputError(
                f"samples on which {graph} runs", f"in number {number}: {error}", "correct what --calibration names"
            ) from error


def _run_sample(
    runner: Runner, encoder: Runner | None, sample: Sample, details: Mapping[str, Any], rng: np.random.Generator
) -> CachedDecoder | None:
    if not runner.signature.aliases:
        runner.run(dict(sample))
        return None
    if encoder is None:
        return _decode(CachedDecoder(runner, 1), sample["token_ids"][0].tolist(), details, rng)
    memories: dict[str, Array | Buffer] = {**sample, **encoder.run(dict(sample))}
    return _decode(CachedDecoder(runner, 1, memories), [int(details["start_token"])], details, rng)


def _decode(
    decoder: CachedDecoder, prompt: list[int], details: Mapping[str, Any], rng: np.random.Generator
) -> CachedDecoder:
    # Tokens are drawn and not the most probable: where a model is in doubt, a range is for either way.
    capacity = decoder.capacity or int(details["max_target_length"])
    longest = min(capacity, len(prompt) + MOST_STEPS)
    ends = {details.get("end_token"), *details.get("end_tokens", ())}
    new, position = prompt, 0
    while position + len(new) <= longest and not (position and new[0] in ends):
        last = np.array([[len(new) - 1]])
        logits = decoder.step(np.array([new]), np.array([position]), last)[LOGITS]
        position += len(new)
        new = [int((logits[0, -1] + rng.gumbel(size=logits.shape[-1])).argmax())]
    return decoder


def _largest(magnitudes: Mapping[str, Sequence[float]]) -> dict[str, float]:
    largest = {name: max(found) for name, found in magnitudes.items()}
    broken = [name for name, value in largest.items() if not np.isfinite(value)]
    if broken:
        raise InputError("samples on which every activation is finite", f"NaN or infinity in {broken}", "check them")
    return largest
