"""How much of a model is left in an artefact: what is served and the standard's graphs beside the float64 model.

The questions are the held-out examples of a shipped checkpoint, or else random inputs.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import torch

from attendant.errors import MachineError
from attendant.manifest import Manifest
from attendant.progress import progress
from attendant.tensor_names import EXPLAINED, LOGITS
from export.bounded.process import guarded
from export.bounded.runner import guard_runners
from export.parity.check import SMALL_MODEL, check_parity, checkpoint_of, spreads_of
from export.parity.eager import eager_runners
from export.parity.parity import Measurement
from export.precision.precisions import precision_named
from export.precision.rounded import rounded_runners
from export.precision.tensorrt_form import is_made_of_its_own, tensorrt_runners
from export.quality.agreement import agreement_of, prefix_of
from export.quality.answers import EvaluationOutputs, Graphs, answers_of
from export.quality.held_out import has_held_out, held_out_questions
from export.quality.quality import ROUNDED, SERVED, STANDARD, TENSORRT_FORM, Quality, Right
from export.quality.questions import EvaluationSet
from export.quality.random_questions import random_questions
from models.checkpoints.store import Checkpoint
from models.task_graph import TaskGraph
from models.tasks.from_bytes import takes_bytes
from serving.runtime.create_runners import create_runners
from serving.runtime.ort.runner import OrtRunner


def measure_artefact(
    folder: Path, source: str | None = None, full: bool = False
) -> tuple[list[Measurement], list[Quality]]:
    """Check the parity of an artefact, and ask it and its model the same questions.

    Args:
        folder: the artefact.
        source: the checkpoint, if not the one that the manifest names.
        full: as for :func:`measure_quality`.

    Raises:
        ArtefactError: as :func:`export.parity.check.check_parity` and :func:`measure_quality` do.
    """
    checkpoint = checkpoint_of(Manifest.read(folder), source)
    return check_parity(folder, checkpoint), measure_quality(folder, checkpoint, full)


def measure_quality(folder: Path, source: str | Checkpoint | None = None, full: bool = False) -> list[Quality]:
    """Ask an artefact and its model the same questions.

    Args:
        folder: the artefact.
        source: the checkpoint, by name or loaded, if not the one that the manifest names.
        full: whether every held-out example is asked, also where that takes longer than seconds.

    Returns:
        What is served first; the standard's graphs, and TensorRT's form, too where they are something else.

    Raises:
        ArtefactError: a runtime cannot load a graph, or fails as it runs one, or the checkpoint has another
            configuration.
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
    """The runners of what is served, if anything here serves it, and of the other forms where they are not that.

    Args:
        folder: the artefact.
        manifest: the artefact's.
        graphs: of the checkpoint, in float32.

    Raises:
        ArtefactError: a runtime cannot load a graph.
    """
    if manifest.form == "torch":
        return {SERVED: create_runners(folder, manifest)}
    plain = [signature for signature in manifest.graphs if signature.name != EXPLAINED]
    names = [signature.name for signature in plain]
    forms: dict[str, Graphs] = {}
    with guarded(f"the graphs of {folder} to be loaded"):
        if precision_named(manifest.precision).ort_cpu:
            served = create_runners(folder, manifest)
            forms[SERVED] = guard_runners(served, "what serves it", folder, names)
            as_they_are = all(
                manifest.file_for(name, "ort-cpu") == f"{name}.onnx" and isinstance(served[name], OrtRunner)
                for name in names
            )
            if not as_they_are:
                standard = {one.name: OrtRunner(folder / f"{one.name}.onnx", one) for one in plain}
                forms[STANDARD] = guard_runners(standard, "ONNX Runtime", folder)
        else:
            with suppress(MachineError):
                forms[SERVED] = guard_runners(create_runners(folder, manifest), "what serves it", folder, names)
            rounded = rounded_runners(folder, (graph.signature for graph in graphs))
            forms[ROUNDED] = guard_runners(rounded, "ONNX Runtime", folder)
        if is_made_of_its_own(manifest):
            forms[TENSORRT_FORM] = guard_runners(tensorrt_runners(folder, manifest), "ONNX Runtime", folder)
    return forms


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
