"""One check a task: which cases its graphs are asked, and what each answer is compared with.

Legend: B batch, S source positions, T target positions, V vocabulary.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import torch

from attendant.progress import progress
from attendant.tensor_names import LOGITS, PIXELS, PREFILL, SELF_ATTENTION
from export.parity.cases import (
    NORMAL,
    DecodeCase,
    Decoding,
    Spreads,
    caption_cases,
    generation_cases,
    image_cases,
    source_cases,
    tensor_cases,
    translation_cases,
)
from export.parity.eager import full_forward
from export.parity.parity import ROWS_ALONE, YARDSTICK, Measurement, compare
from models.checkpoints.store import Checkpoint
from models.task_graph import TaskGraph
from models.tasks.from_bytes import CaptionerFromBytes, takes_bytes
from serving.runtime.base import Array, Buffer, Runner
from serving.runtime.cached_decoder import CachedDecoder

REFERENCE = "eager float64"
RUNTIME = "ort float32"
LOWERED = "ort-cpu float32"
OPENVINO = "openvino float32"
TENSORRT_FORM = "tensorrt's form float32"
"""By ONNX Runtime; TensorRT runs nothing here."""
SINGLE_STEPS = 8
Runners = dict[str, dict[str, Runner]]


def check_classifier(checkpoint: Checkpoint, runners: Runners, spreads: Spreads) -> Iterator[Measurement]:
    """Random images through the graph ``model``, and ``explained`` where there is one."""
    signature = runners[RUNTIME]["model"].signature
    cases = list(image_cases(signature.input(PIXELS), signature.axes, spreads.get(PIXELS, NORMAL)))
    with progress("parity", len(cases)) as advance:
        for case in cases:
            for name in runners[RUNTIME]:
                yield from _measure(name, case.name, case.feeds, runners)
            advance(case.name)


def check_predictor(checkpoint: Checkpoint, runners: Runners, spreads: Spreads) -> Iterator[Measurement]:
    """Random tensors through the graph ``model``, and the rows of each case alone, as the server joins requests."""
    (graph,) = checkpoint.graphs()
    cases = list(tensor_cases(graph, spreads))
    with progress("parity", len(cases)) as advance:
        for name, feeds in cases:
            yield from _measure("model", name, feeds, runners)
            yield from _measure_rows(name, feeds, runners, graph.within)
            advance(name)


def _measure_rows(
    case: str, feeds: dict[str, Array], runners: Runners, within: Mapping[str, tuple[float, float]]
) -> Iterator[Measurement]:
    """The rows together, with as many of a hundred times their size: these turn even labels that see them."""
    model = runners[REFERENCE]["model"]

    def larger(name: str, array: Array) -> Array:
        return np.clip(100 * array, *within.get(name, (-np.inf, np.inf))) if array.dtype.kind == "f" else array

    unlike = {name: np.concatenate([array, larger(name, array)]) for name, array in feeds.items()}
    rows = range(len(next(iter(unlike.values()))))
    alone = [model.run({name: array[row : row + 1] for name, array in unlike.items()}) for row in rows]
    for output, joined in model.run(unlike).items():
        found, reference = np.concatenate([one[output].numpy() for one in alone]), joined.numpy()
        same = (found == reference) | (np.isnan(found) & np.isnan(reference))  # as of what such sizes overflow
        found, reference = np.where(same, 0, found), np.where(same, 0, reference)
        # An error is of a row's own size: a module that is no linear one makes far larger ones of larger rows.
        size = np.maximum(1, np.abs(reference).max(axis=tuple(range(1, reference.ndim)), keepdims=True, initial=0))
        yield compare("model", ROWS_ALONE, f"{case}, {output}", found / size, reference / size)


def check_embedder(checkpoint: Checkpoint, runners: Runners, spreads: Spreads) -> Iterator[Measurement]:
    """Random texts with padding through the graph ``model``; only positions of tokens are compared."""
    (graph,) = checkpoint.graphs()
    cases = list(source_cases(graph.below["token_ids"], graph.largest["tokens"]))
    with progress("parity", len(cases)) as advance:
        for case in cases:
            types = case.ids % graph.below["token_types"]
            feeds = {"token_ids": case.ids, "mask": case.mask, "token_types": types}
            yield from _measure("model", case.name, feeds, runners, {"hidden": case.mask})
            advance(case.name)


def check_translator(checkpoint: Checkpoint, runners: Runners, spreads: Spreads) -> Iterator[Measurement]:
    """Random sources through the encoder, and random targets through the cached decoder."""
    encoder, decoder = checkpoint.graphs()
    vocabulary, longest = encoder.below["source_ids"], encoder.largest["source"]
    sources = list(source_cases(vocabulary, longest))
    with progress("parity, encoder", len(sources)) as advance:
        for source in sources:
            yield from _measure("encoder", source.name, source.feeds, runners)
            advance(source.name)
    yield from _check_decoder(checkpoint, list(translation_cases(decoding_of(decoder), vocabulary, longest)), runners)


def check_captioner(checkpoint: Checkpoint, runners: Runners, spreads: Spreads) -> Iterator[Measurement]:
    """Random images through the encoder, and random targets through the cached decoder."""
    _, decoder = checkpoint.graphs()
    signature = runners[RUNTIME]["encoder"].signature
    pixels, axes, spread = signature.input(PIXELS), signature.axes, spreads.get(PIXELS, NORMAL)
    images = list(image_cases(pixels, axes, spread))
    with progress("parity, encoder", len(images)) as advance:
        for image in images:
            yield from _measure("encoder", image.name, image.feeds, runners)
            advance(image.name)
    yield from _check_decoder(checkpoint, list(caption_cases(decoding_of(decoder), pixels, axes, spread)), runners)


def check_generator(checkpoint: Checkpoint, runners: Runners, spreads: Spreads) -> Iterator[Measurement]:
    """Random targets through the cached decoder."""
    (decoder,) = checkpoint.graphs()
    yield from _check_decoder(checkpoint, list(generation_cases(decoding_of(decoder))), runners)


def decoding_of(decoder: TaskGraph) -> Decoding:
    """What limits the targets of a decoder graph; a state that does not grow sets no limit."""
    vocabulary = decoder.below["token_ids"]
    if "steps" not in decoder.largest:
        return Decoding(vocabulary=vocabulary, capacity=SINGLE_STEPS, single_steps=True)
    return Decoding(vocabulary=vocabulary, capacity=decoder.largest["steps"])


def _measure(
    graph: str, case: str, feeds: dict[str, Array], runners: Runners, shown: dict[str, Array] | None = None
) -> Iterator[Measurement]:
    runs = {level: graphs[graph] for level, graphs in runners.items() if graph in graphs}
    results = {level: _select_positions(runner.run(dict(feeds)), shown or {}) for level, runner in runs.items()}
    for output, reference in results.pop(REFERENCE).items():
        for level, outputs in results.items():
            yield compare(graph, level, f"{case}, {output}", outputs[output], reference)


def _select_positions(outputs: dict[str, Buffer], masks: dict[str, Array]) -> dict[str, Array]:
    arrays = {name: buffer.numpy() for name, buffer in outputs.items()}
    return {name: array[masks[name]] if name in masks else array for name, array in arrays.items()}


def _check_decoder(checkpoint: Checkpoint, cases: Sequence[DecodeCase], runners: Runners) -> Iterator[Measurement]:
    takes = "encoder" in runners[RUNTIME] and takes_bytes(runners[RUNTIME]["encoder"].signature)
    model = CaptionerFromBytes(checkpoint.model, checkpoint.details["preprocessing"]) if takes else checkpoint.model
    known: dict[tuple[str, bytes, torch.dtype], Array] = {}

    def forward(case: DecodeCase, dtype: torch.dtype) -> Array:
        key = case.source.name if case.source else "", case.target.tobytes(), dtype
        if key not in known:
            source = tuple(case.source.feeds.values()) if case.source else ()
            known[key] = full_forward(model, dtype, *source, case.target)
        return known[key]

    decoders = [graph for graph in runners[RUNTIME] if graph not in ("encoder", PREFILL)]
    with progress("parity, decoder", len(cases)) as advance:
        for case in cases:
            for graph in decoders:
                yield from _measure_decode(graph, case, forward, runners)
            if PREFILL in runners[RUNTIME]:
                yield from _measure_prefill(case, forward, runners)
            advance(case.name)


Forward = Callable[[DecodeCase, torch.dtype], Array]


def _measure_decode(graph: str, case: DecodeCase, forward: Forward, runners: Runners) -> Iterator[Measurement]:
    full = forward(case, torch.float64)
    yield compare(graph, YARDSTICK, case.name, forward(case, torch.float32), full)
    sharing = {level: {**runners[RUNTIME], **graphs} for level, graphs in runners.items() if graph in graphs}
    cached = {level: _decode_in_chunks(graph, case, graphs) for level, graphs in sharing.items()}
    for level in (level for level in cached if level != YARDSTICK):
        yield compare(graph, f"cached {level}", case.name, cached[level][LOGITS], full)
    for output in cached[REFERENCE].keys() - {LOGITS}:
        for level in (level for level in cached if level != REFERENCE):
            name = level if level == YARDSTICK else f"cached {level}"
            yield compare(graph, name, f"{case.name}, {output}", cached[level][output], cached[REFERENCE][output])


def _measure_prefill(case: DecodeCase, forward: Forward, runners: Runners) -> Iterator[Measurement]:
    """What the decoder says of the last token, behind all that the graph of prompts has read."""
    rows, length = case.target.shape
    start_B, last_B1 = np.full(rows, length - 1), np.ascontiguousarray(case.target[:, -1:])
    full = forward(case, torch.float64)[:, -1:]
    for level, graphs in runners.items():
        if PREFILL in graphs:
            decoder = CachedDecoder({**runners[RUNTIME], **graphs}["decoder"], rows)
            reader = CachedDecoder.over(graphs[PREFILL], decoder.caches, {})
            for size, start in case.chunks:
                reader.step(np.take_along_axis(case.target, start[:, None] + np.arange(size), axis=1), start)
            found = decoder.step(last_B1, start_B)[LOGITS]
            yield compare(PREFILL, level if level == YARDSTICK else f"cached {level}", case.name, found, full)


def _decode_in_chunks(graph: str, case: DecodeCase, graphs: dict[str, Runner]) -> dict[str, Array]:
    rows, length = case.target.shape
    memories: dict[str, Array | Buffer] = {}
    if case.source is not None:
        memories = {**case.source.feeds, **graphs["encoder"].run(dict(case.source.feeds))}
    decoder = CachedDecoder(graphs[graph], rows, memories)
    steps = {
        spec.name: spec.axes.index("steps") if "steps" in spec.axes else 1 for spec in graphs[graph].signature.outputs
    }
    seen: dict[str, dict[tuple[int, int], Array]] = {}
    for size, start in case.chunks:
        positions = start[:, None] + np.arange(size)
        for name, output in decoder.step(np.take_along_axis(case.target, positions, axis=1), start).items():
            places = seen.setdefault(name, {})
            for row, step in np.ndindex(positions.shape):
                shown = output[row].take(step, axis=steps[name] - 1)
                if name == SELF_ATTENTION:  # of as many positions as a step attends to: those behind it have none
                    shown = np.pad(shown, [(0, 0)] * (shown.ndim - 1) + [(0, length - shown.shape[-1])])
                places[row, int(positions[row, step])] = shown
    return {
        name: np.stack([np.stack([places[row, position] for position in range(length)]) for row in range(rows)])
        for name, places in seen.items()
    }
