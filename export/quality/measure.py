"""How much of a model is left in an artefact: what is served and the standard's graphs beside the float64 model.

The questions are the held-out examples of a shipped checkpoint, or else random inputs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from attendant.errors import MachineError
from attendant.manifest import Manifest
from attendant.progress import progress
from attendant.tensor_names import EXPLAINED, LOGITS
from export.parity.check import SMALL_MODEL, checkpoint_of, spreads_of
from export.parity.eager import eager_runners
from export.precision.precisions import precision_named
from export.precision.rounded import rounded_runners
from export.quality.agreement import Agreement, Prefix, agreement_of, prefix_of
from export.quality.answers import EvaluationOutputs, Graphs, answers_of
from export.quality.held_out import has_held_out, held_out_questions
from export.quality.questions import EvaluationSet
from export.quality.random_questions import random_questions
from models.checkpoints.store import Checkpoint
from models.task_graph import TaskGraph
from models.tasks.from_bytes import takes_bytes
from serving.runtime.create_runners import create_runners
from serving.runtime.ort.runner import OrtRunner

SERVED, STANDARD, ROUNDED = "served", "standard", "rounded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """Right answers beside the reference's.

    Attributes:
        metric: what counts as right.
        share: 0 to 1.
        reference: the eager float64 model's share.
        total: how many were asked.
        perplexity: of a language model.
        reference_perplexity: of the eager float64 model.
    """

    metric: str
    share: float
    reference: float
    total: int
    perplexity: float | None = None
    reference_perplexity: float | None = None

    @property
    def loss(self) -> float:
        """How much less than the reference, in points of a hundred."""
        return 100 * (self.reference - self.share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """One form of an artefact beside the eager float64 model.

    Attributes:
        form: :data:`SERVED`, what create_runners gives: lowered or by another runtime where that is faster;
            :data:`STANDARD`, the graphs of standard operators on ONNX Runtime; or :data:`ROUNDED`, those of a type that
            it lacks on a CPU, in fp32 and rounded wherever they round.
        questions: what was asked.
        real: whether they are examples of what the model was made for.
        agreements: output → the comparison of its values.
        prefix: of greedy answers; none where there is no decoder.
        accuracy: none where nobody knows the right answers.
    """

    form: str
    questions: str
    real: bool
    agreements: Mapping[str, Agreement]
    prefix: Prefix | None = None
    accuracy: Right | None = None


def measure_quality(folder: Path, source: str | Checkpoint | None = None, full: bool = False) -> list[Quality]:
    """Ask an artefact and its model the same questions.

    Args:
        folder: the artefact.
        source: the checkpoint, by name or loaded, if not the one that the manifest names.
        full: whether every held-out example is asked, also where that takes longer than seconds.

    Returns:
        What is served first; the standard's graphs too where that is something else.

    Raises:
        ArtefactError: a runtime cannot load a graph, or the checkpoint has another configuration.
    """
    manifest = Manifest.read(folder)
    checkpoint = checkpoint_of(manifest, source)
    large = sum(parameter.numel() for parameter in checkpoint.model.parameters()) >= SMALL_MODEL
    if not large:
        torch.set_num_threads(1)
    graphs = checkpoint.graphs(uint8=takes_bytes(manifest.graphs[0]))
    if has_held_out(checkpoint):
        questions = held_out_questions(checkpoint, manifest.graphs[0], full)
    else:
        questions = random_questions(checkpoint, manifest, large, spreads_of(manifest))
    forms = forms_of(folder, manifest, graphs)
    with progress(f"quality, {questions.name}", 1 + len(forms)) as advance:
        reference = answers_of(eager_runners(graphs, torch.float64), questions, at_once=True)
        advance("eager float64")
        found = []
        for form, runners in forms.items():
            found.append(_quality(form, answers_of(runners, questions), reference, questions, manifest))
            advance(form)
    return found


def forms_of(folder: Path, manifest: Manifest, graphs: Iterable[TaskGraph]) -> dict[str, Graphs]:
    """The runners of what is served, if anything here serves it, and of the standard's graphs where they are not that.

    Args:
        folder: the artefact.
        manifest: the artefact's.
        graphs: of the checkpoint, in float32.
    """
    if manifest.form == "torch":
        return {SERVED: create_runners(folder, manifest)}
    if precision_named(manifest.precision).ort_cpu:
        served = create_runners(folder, manifest)
        plain = [signature for signature in manifest.graphs if signature.name != EXPLAINED]
        as_they_are = all(
            manifest.file_for(signature.name, "ort-cpu") == f"{signature.name}.onnx"
            and isinstance(served[signature.name], OrtRunner)
            for signature in plain
        )
        if as_they_are:
            return {SERVED: served}
        standard = {signature.name: OrtRunner(folder / f"{signature.name}.onnx", signature) for signature in plain}
        return {SERVED: served, STANDARD: standard}
    rounded = {ROUNDED: rounded_runners(folder, (graph.signature for graph in graphs))}
    try:
        return {SERVED: create_runners(folder, manifest), **rounded}
    except MachineError:
        return {**rounded}


def _quality(
    form: str, found: EvaluationOutputs, reference: EvaluationOutputs, questions: EvaluationSet, manifest: Manifest
) -> Quality:
    prefix = None
    if found.greedy is not None and reference.greedy is not None:
        details = manifest.details
        prefix = prefix_of(
            found.greedy,
            reference.greedy,
            {*details.get("end_tokens", ()), *([details["end_token"]] if "end_token" in details else [])},
        )
    return Quality(
        form=form,
        questions=questions.name,
        real=questions.real,
        agreements={
            name: agreement_of(values, reference.values[name], logits=name == LOGITS)
            for name, values in found.values.items()
        },
        prefix=prefix,
        accuracy=_compare_accuracy(found, reference, questions),
    )


def _compare_accuracy(found: EvaluationOutputs, reference: EvaluationOutputs, questions: EvaluationSet) -> Right | None:
    if found.accuracy is None or reference.accuracy is None:
        return None
    return Right(
        metric=questions.metric,
        share=found.accuracy.share,
        reference=reference.accuracy.share,
        total=found.accuracy.total,
        perplexity=found.accuracy.perplexity,
        reference_perplexity=reference.accuracy.perplexity,
    )
