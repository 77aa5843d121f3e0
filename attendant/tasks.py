"""What a model can be for: one record a task, which every room reads in the place of a table of its own.

A record names the functions of other rooms as ``module:function``; :func:`resolve` imports them when they are needed:
nothing is imported upward, nor torch by a client.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from attendant.errors import ArtefactError
from attendant.tensor_names import LOGITS, POOLED


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a model is for. What a record leaves out is as in ``predict``: tensors → tensors, by one graph, ``model``.

    Attributes:
        name: as manifests and ``config.pbtxt`` write it.
        reads: what a request brings.
        answers: numbers, one of some labels, or a text, token by token.
        outputs: those that a load test asks for; all of them if none is named.
        verb: of the command ``attendant``, which asks such a model; ``predict`` asks those that have none.
        canary: one small request and its judgement.
        body: the module of the class that Triton calls.
        config: what it adds to ``config.pbtxt``.
        offline: the same answers without a server.
        engine: the class that decodes, of a task that answers with text.
        parity: which cases the graphs are given, and what each output is compared with.
        random_inputs: for the first graph.
        calibration: from the tokens of a text to inputs of the first graph, of a task that reads texts.
        comparison: with the library that a checkpoint was imported from.
        explain: draws what a model attends to.
    """

    name: str
    reads: Literal["tensors", "pixels", "text"] = "tensors"
    answers: Literal["values", "label", "text"] = "values"
    outputs: tuple[str, ...] = ()
    verb: str = ""
    canary: str = "clients.canary:check_predictor"
    body: str = "serving.triton.backends.predict"
    config: str = "serving.triton.repository.model_config:configure_predictor"
    offline: str = "serving.triton.offline:load_predictor"
    engine: str = ""
    parity: str = "export.parity.task_checks:check_predictor"
    random_inputs: str = "export.quality.random_questions:random_tensors"
    calibration: str = ""
    comparison: str = ""
    explain: str = ""


def resolve(function: str) -> Any:
    """What ``module:function`` names."""
    module, _, name = function.partition(":")
    return getattr(import_module(module), name)


TASKS = {
    task.name: task
    for task in (
        Task(
            name="classify",
            reads="pixels",
            answers="label",
            outputs=(LOGITS,),
            verb="clients.verbs:classify",
            canary="clients.canary:check_classifier",
            body="serving.triton.backends.classify",
            config="serving.triton.repository.model_config:configure_classifier",
            offline="serving.triton.offline:load_classifier",
            parity="export.parity.task_checks:check_classifier",
            random_inputs="export.quality.random_questions:random_images",
            comparison="models.checkpoints.importers.compare:CLASSIFIER",
            explain="models.explanation:explain_image",
        ),
        Task(
            name="caption",
            reads="pixels",
            answers="text",
            verb="clients.generation_verbs:caption",
            canary="clients.canary:check_captioner",
            body="serving.triton.backends.caption",
            config="serving.triton.repository.model_config:configure_captioner",
            offline="serving.triton.offline:load_generator",
            engine="serving.engine.text_generation_model:CaptionModel",
            parity="export.parity.task_checks:check_captioner",
            random_inputs="export.quality.random_questions:random_images",
            comparison="models.checkpoints.importers.compare:CAPTIONER",
            explain="models.explanation:explain_caption",
        ),
        Task(
            name="translate",
            reads="text",
            answers="text",
            verb="clients.generation_verbs:translate",
            canary="clients.canary:check_text",
            body="serving.triton.backends.translate",
            config="serving.triton.repository.model_config:configure_text_generator",
            offline="serving.triton.offline:load_generator",
            engine="serving.engine.text_generation_model:TranslationModel",
            parity="export.parity.task_checks:check_translator",
            random_inputs="export.quality.random_questions:random_sources",
            calibration="export.precision.calibration.samples:source_sample",
            comparison="models.checkpoints.importers.compare:TRANSLATOR",
            explain="models.explanation:explain_text",
        ),
        Task(
            name="generate",
            reads="text",
            answers="text",
            verb="clients.generation_verbs:generate",
            canary="clients.canary:check_text",
            body="serving.triton.backends.generate",
            config="serving.triton.repository.model_config:configure_text_generator",
            offline="serving.triton.offline:load_generator",
            engine="serving.engine.text_generation_model:LanguageModel",
            parity="export.parity.task_checks:check_generator",
            random_inputs="export.quality.random_questions:no_inputs",
            calibration="export.precision.calibration.samples:prompt_sample",
            comparison="models.checkpoints.importers.compare:GENERATOR",
            explain="models.explanation:explain_continuation",
        ),
        Task(
            name="embed",
            reads="text",
            outputs=(POOLED,),
            verb="clients.verbs:embed",
            canary="clients.canary:check_embedder",
            body="serving.triton.backends.embed",
            config="serving.triton.repository.model_config:configure_embedder",
            offline="serving.triton.offline:load_embedder",
            parity="export.parity.task_checks:check_embedder",
            random_inputs="export.quality.random_questions:random_tokens",
            calibration="export.precision.calibration.samples:token_sample",
            comparison="models.checkpoints.importers.compare:EMBEDDER",
        ),
        Task(name="predict", verb="clients.verbs:predict"),
    )
}


def task_named(name: str) -> Task:
    """The record of an artefact's task.

    Raises:
        ArtefactError: there is none of that name.
    """
    if name not in TASKS:
        raise ArtefactError(f"a task, one of {sorted(TASKS)}", repr(name), "export a model of those tasks")
    return TASKS[name]
