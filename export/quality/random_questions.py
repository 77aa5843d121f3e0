"""An evaluation set for a model of which no real ones are known: random inputs, the same in every run.

They are those of the parity check (:mod:`export.parity.cases`). Of random inputs and random weights the drift says
something, for every value is wrong by so much; first choices and probabilities say little, for all are nearly equal.
"""

from itertools import islice

import numpy as np

from attendant.manifest import Manifest
from attendant.tasks import TASKS, resolve
from attendant.tensor_names import PIXELS
from export.parity.cases import NORMAL, SourceCase, Spreads, image_cases, source_cases, tensor_cases
from export.parity.task_checks import decoding_of
from export.quality.questions import EvaluationSet
from models.checkpoints.store import Checkpoint
from models.task_graph import TaskGraph
from serving.runtime.base import Array

ROWS_OF_A_TEXT_MODEL, ROWS_OF_A_LARGE_MODEL = 5, 2
LONGEST, LONGEST_OF_A_LARGE_MODEL = 64, 16


def random_questions(checkpoint: Checkpoint, manifest: Manifest, large: bool, spreads: Spreads) -> EvaluationSet:
    """Inputs for an artefact's first graph, and targets where it has a decoder.

    Args:
        checkpoint: that the artefact was made from.
        manifest: the artefact's, whose limits they keep.
        large: whether few and short ones have to do, since the reference takes its time.
        spreads: of the floats.
    """
    graphs = checkpoint.graphs()
    feeds = resolve(TASKS[manifest.task].random_inputs)(graphs[0], manifest, spreads)
    masks = {"hidden": "mask"} if manifest.task == "embed" else {}
    count = len(next(iter(feeds.values()))) if feeds else ROWS_OF_A_TEXT_MODEL
    truth = _targets(graphs[-1], manifest, count, large) if graphs[-1].signature.name == "decoder" else None
    prompt = 1 if feeds or truth is None else truth.shape[1] // 2
    every = EvaluationSet(
        name="random inputs",
        real=False,
        count=count,
        sample=count,
        feeds=feeds,
        truth=truth,
        prompt=prompt,
        masks=masks,
    )
    return every.first(ROWS_OF_A_LARGE_MODEL) if large else every


def random_images(_graph: TaskGraph, manifest: Manifest, spreads: Spreads) -> dict[str, Array]:
    """A batch of usual size."""
    signature = manifest.graphs[0]
    *_, usual = islice(image_cases(signature.input(PIXELS), signature.axes, spreads.get(PIXELS, NORMAL)), 4)
    return usual.feeds


def random_sources(graph: TaskGraph, _manifest: Manifest, _spreads: Spreads) -> dict[str, Array]:
    """Texts with padding, the longest there are."""
    return _longest(graph.below["source_ids"], graph.largest["source"]).feeds


def random_tokens(graph: TaskGraph, _manifest: Manifest, _spreads: Spreads) -> dict[str, Array]:
    """The same, with the kinds of their tokens."""
    case = _longest(graph.below["token_ids"], graph.largest["tokens"])
    return {"token_ids": case.ids, "mask": case.mask, "token_types": case.ids % graph.below["token_types"]}


def random_tensors(graph: TaskGraph, _manifest: Manifest, spreads: Spreads) -> dict[str, Array]:
    """As many rows as the graph takes."""
    *_, (_, feeds) = tensor_cases(graph, spreads)
    return feeds


def no_inputs(_graph: TaskGraph, _manifest: Manifest, _spreads: Spreads) -> dict[str, Array]:
    """For a model whose decoder is all that it has."""
    return {}


def _longest(vocabulary: int, longest: int) -> SourceCase:
    *_, case = source_cases(vocabulary, longest)
    return case


def _targets(decoder: TaskGraph, manifest: Manifest, count: int, large: bool) -> Array:
    limits = decoding_of(decoder)
    length = min(limits.capacity, LONGEST_OF_A_LARGE_MODEL if large else LONGEST)
    targets: Array = np.random.default_rng(length).integers(0, limits.vocabulary, (count, length + 1))
    targets[:, 0] = manifest.details.get("start_token", targets[0, 0])
    return targets
