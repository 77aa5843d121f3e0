"""Climb the parity ladder of an exported artefact: eager float64 → eager float32 → ONNX Runtime, over many cases.

Legend: B batch, S source positions, T target positions, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

from export.eager import eager_runners, full_forward
from export.ladder_cases import DecodeCase, decode_cases, image_cases, source_cases
from export.parity import YARDSTICK, Measurement, compare
from models.checkpoints.resolve import checkpoint_named
from models.checkpoints.store import Checkpoint
from models.config import config_to_json
from models.errors import ArtefactError
from models.manifest import Manifest
from models.progress import progress
from models.tensor_names import LOGITS, PIXELS
from serving.runtime.base import Array, Runner
from serving.runtime.cached_decoder import CachedDecoder
from serving.runtime.ort_runner import ort_runners

REFERENCE = "eager float64"
RUNTIME = "ort float32"
SMALL_MODEL = 10_000_000
Runners = dict[str, dict[str, Runner]]


def climb(folder: Path, source: str | None = None) -> list[Measurement]:
    """Compare an artefact's graphs with the model they were made from.

    Args:
        folder: the artefact.
        source: the checkpoint, if not the one that the manifest names.

    Returns:
        One measurement for each case and runner.

    Raises:
        ArtefactError: a file is not what the manifest says, or the checkpoint has another configuration.
    """
    manifest = Manifest.read(folder)
    manifest.verify(folder)
    checkpoint = checkpoint_named(source or manifest.source)
    _require_same_model(checkpoint, manifest)
    if sum(parameter.numel() for parameter in checkpoint.model.parameters()) < SMALL_MODEL:
        torch.set_num_threads(1)  # more threads make a toy model up to 20 times slower where cores are shared
    runners: Runners = {
        REFERENCE: dict(eager_runners(checkpoint, torch.float64)),
        YARDSTICK: dict(eager_runners(checkpoint, torch.float32)),
        RUNTIME: dict(ort_runners(folder, manifest)),
    }
    climbs = {"classify": _climb_classifier, "translate": _climb_translator}
    return list(climbs[manifest.task](checkpoint, runners))


def _require_same_model(checkpoint: Checkpoint, manifest: Manifest) -> None:
    wanted = manifest.name, manifest.family, manifest.config
    found = checkpoint.name, checkpoint.family.name, config_to_json(checkpoint.config)
    if wanted != found:
        raise ArtefactError(
            f"the checkpoint that the artefact was made from: {wanted}",
            str(found),
            "name the right one with --source, or export again",
        )


def _climb_classifier(checkpoint: Checkpoint, runners: Runners) -> Iterator[Measurement]:
    cases = list(image_cases(checkpoint.config))
    with progress("parity", len(cases)) as advance:
        for case in cases:
            yield from _measure("model", case.name, {PIXELS: case.pixels}, LOGITS, runners)
            advance(case.name)


def _climb_translator(checkpoint: Checkpoint, runners: Runners) -> Iterator[Measurement]:
    sources = list(source_cases(checkpoint.config))
    decodes = list(decode_cases(checkpoint.config))
    with progress("parity", len(sources) + len(decodes)) as advance:
        for source in sources:
            for output in runners[REFERENCE]["encoder"].signature.outputs:
                yield from _measure("encoder", source.name, source.feeds(), output.name, runners)
            advance(source.name)
        forward = _remembered_forward(checkpoint)
        for decode in decodes:
            yield from _measure_decode(decode, forward, runners)
            advance(decode.name)


def _measure(graph: str, case: str, feeds: dict[str, Array], output: str, runners: Runners) -> Iterator[Measurement]:
    results = {rung: graphs[graph].run(dict(feeds))[output].numpy() for rung, graphs in runners.items()}
    for rung in (YARDSTICK, RUNTIME):
        yield compare(graph, rung, f"{case}, {output}", results[rung], results[REFERENCE])


Forward = Callable[[DecodeCase, torch.dtype], Array]


def _remembered_forward(checkpoint: Checkpoint) -> Forward:
    known: dict[tuple[str, str, torch.dtype], Array] = {}

    def forward(case: DecodeCase, dtype: torch.dtype) -> Array:
        key = case.source.name, case.target.tobytes().hex(), dtype
        if key not in known:
            arrays = case.source.ids, case.source.mask, case.target
            known[key] = full_forward(checkpoint.model, dtype, *arrays)
        return known[key]

    return forward


def _measure_decode(case: DecodeCase, forward: Forward, runners: Runners) -> Iterator[Measurement]:
    reference = forward(case, torch.float64)
    yield compare("decoder", YARDSTICK, case.name, forward(case, torch.float32), reference)
    for rung in (REFERENCE, RUNTIME):
        yield compare("decoder", f"cached {rung}", case.name, _cached(case, runners[rung]), reference)


def _cached(case: DecodeCase, graphs: dict[str, Runner]) -> Array:
    crosses = graphs["encoder"].run(dict(case.source.feeds()))
    decoder = CachedDecoder(graphs["decoder"], crosses, case.source.mask)
    logits: dict[tuple[int, int], Array] = {}
    for size, start in case.chunks:
        positions = start[:, None] + np.arange(size)
        scores = decoder.step(np.take_along_axis(case.target, positions, axis=1), start)
        for row, step in np.ndindex(positions.shape):
            logits[row, int(positions[row, step])] = scores[row, step]
    rows, length = case.target.shape
    return np.stack([np.stack([logits[row, position] for position in range(length)]) for row in range(rows)])
