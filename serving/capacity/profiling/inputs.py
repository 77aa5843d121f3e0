"""Inputs to measure with: random tokens, or an empty image."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from attendant.errors import UserError
from attendant.manifest import Manifest
from attendant.parameters import Device, Runtime
from attendant.sampling_params import SamplingParams
from attendant.tasks import TASKS, resolve
from attendant.tensor_names import PIXELS
from serving.engine.request import Request
from serving.engine.settings import EngineSettings
from serving.engine.text_generation_model import CaptionModel, TextGenerationModel, TranslationModel
from serving.runtime.base import numpy_dtype

_FIRST, _END = 3, 12  # tokens that every vocabulary has, and that are no special ones


def load_model(
    folder: Path, settings: EngineSettings, threads: int = 1, runtime: Runtime = "auto", device: Device = "auto"
) -> TextGenerationModel:
    """An artefact that answers with text.

    Raises:
        UserError: it does not.
        ArtefactError: a file is missing or not what the manifest says.
    """
    manifest = Manifest.read(folder)
    model: TextGenerationModel = resolve(engine_of(manifest, folder))(
        folder, manifest, threads, runtime, device, settings
    )
    return model


def engine_of(manifest: Manifest, folder: Path) -> str:
    """Where the class lies that decodes for such an artefact.

    Raises:
        UserError: it does not answer with text.
    """
    engines = {task.name: task.engine for task in TASKS.values() if task.engine}
    if manifest.task not in engines:
        expected = f"an artefact of one of the tasks {list(engines)}, which an engine steps"
        raise UserError(expected, f"{manifest.task!r} in {folder}", "plan for a generative model")
    return engines[manifest.task]


def longest_input(model: TextGenerationModel) -> int:
    """The most tokens that an input can have; 1 of an image."""
    if isinstance(model, CaptionModel):
        return 1
    return int(model.details["max_source_length" if isinstance(model, TranslationModel) else "max_length"])


def create_input(model: TextGenerationModel, length: int, rng: np.random.Generator) -> Any:
    """An input of so many tokens, as :meth:`TextGenerationModel.request` takes it."""
    if isinstance(model, CaptionModel):
        signature = model.runners["encoder"].signature
        spec = signature.input(PIXELS)
        sizes = {name: axis.opt for name, axis in signature.axes.items()} | {"batch": 1}
        return np.zeros(spec.shape(sizes)[1:], numpy_dtype(spec.dtype))
    return [int(token) for token in rng.integers(_FIRST, _END, length)]


def request_of_length(model: TextGenerationModel, length: int, tokens: int, rng: np.random.Generator) -> Request:
    """A request whose answer has so many tokens, or as many as the model can give."""
    request = model.request(create_input(model, length, rng), SamplingParams(ignore_eos=True))
    return replace(request, max_tokens=min(tokens, request.max_tokens))
