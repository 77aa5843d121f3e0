"""What is sent, and what it is answered when nothing else runs: computed in this process, before the run.

Inputs whose two best tokens lie closer than :data:`SMALLEST_GAP` anywhere are left out: a batch adds the same numbers
in another order, and only there could that change a token.
"""

import base64
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from attendant.images import pixels_from_image
from attendant.manifest import Manifest
from attendant.sampling_params import SamplingParams
from attendant.sampling_tensors import prompt_tensors, tensors_of
from attendant.tensor_names import LOGITS, PIXELS, STREAM
from benchmarks.chaos.scenario import MODEL_OF
from commands.quickstart.prompts import PROMPTS
from models.train.date_data import held_out
from serving.capacity.profiling.inputs import load_model
from serving.engine.settings import EngineSettings
from serving.runtime.create_runners import create_runners

COUNT = 12
SMALLEST_GAP = 0.01
GENERATED_TOKENS = 100
_ALONE = EngineSettings(max_num_seqs=4, max_queue_size=1, prefix_cache_bytes=0)
Answers = dict[str, dict[str, Any]]
"""By candidate: tokens and text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One request's input, as both transports send it, and its answers.

    Attributes:
        name: by which the history calls it.
        tensors: of a request by gRPC.
        path: of a request to the gateway.
        body: of the same, as JSON.
    """

    name: str
    kind: str
    tensors: Mapping[str, Any]
    path: str
    body: Mapping[str, Any]
    answers: Answers

    @property
    def model(self) -> str:
        return MODEL_OF[self.kind]


def create_inputs(artefacts: Mapping[str, Path]) -> dict[str, list[Input]]:
    """Inputs of every kind whose model there is: kind → inputs."""
    makers = {"classify": _images, "translate": _dates, "beams": _beams, "generate": _prompts}
    return {kind: list(make(artefacts[MODEL_OF[kind]])) for kind, make in makers.items() if MODEL_OF[kind] in artefacts}


def _images(folder: Path) -> Iterator[Input]:
    manifest = Manifest.read(folder)
    runner = create_runners(folder, manifest)["model"]
    labels = manifest.details["labels"]
    for number, digit in enumerate(load_digits().images[:COUNT]):
        image = Image.fromarray((digit * 15).astype(np.uint8))
        pixels = pixels_from_image(image, manifest.details["preprocessing"])[None]
        logits = runner.run({PIXELS: pixels})[LOGITS].numpy()[0]
        best, second = np.sort(logits)[::-1][:2]
        if best - second < SMALLEST_GAP:
            continue
        file = io.BytesIO()
        image.save(file, "PNG")
        label = int(logits.argmax())
        yield Input(
            name=f"image {number}",
            kind="classify",
            tensors={PIXELS: pixels},
            path="/v1/classify",
            body={"model": MODEL_OF["classify"], "image": base64.b64encode(file.getvalue()).decode(), "top_k": 1},
            answers={"0": {"tokens": [label], "text": str(labels[label])}},
        )


def _dates(folder: Path) -> Iterator[Input]:
    texts = [text for text, _ in held_out(COUNT)]
    return _texts(folder, "translate", texts, SamplingParams(), "/v1/translate", lambda text: {"input": text})


def _beams(folder: Path) -> Iterator[Input]:
    texts = [text for text, _ in held_out(2 * COUNT)][COUNT:]
    options = {"beam_width": 3, "n": 2}
    params = SamplingParams(beam_width=3, n=2)
    return _texts(folder, "beams", texts, params, "/v1/translate", lambda text: {"input": text, **options})


def _prompts(folder: Path) -> Iterator[Input]:
    params = SamplingParams(max_tokens=GENERATED_TOKENS, ignore_eos=True)
    body = {"max_tokens": GENERATED_TOKENS, "ignore_eos": True, "temperature": 0}
    texts = [*PROMPTS, *(f"{first}. {second}" for first, second in zip(PROMPTS, PROMPTS[3:], strict=False))]
    return _texts(folder, "generate", texts, params, "/v1/completions", lambda text: {"prompt": text, **body})


def _texts(
    folder: Path, kind: str, texts: Sequence[str], params: SamplingParams, path: str, body: Any
) -> Iterator[Input]:
    model = load_model(folder, _ALONE)
    for number, text in enumerate(texts):
        if params.beam_width == 1 and _smallest_gap(model, text, params) < SMALLEST_GAP:
            continue
        answers: Answers = {}
        for output in model.stream(model.request(text, params)):
            answer = answers.setdefault(str(output.candidate), {"tokens": [], "text": ""})
            answer["tokens"] += list(output.token_ids)
            answer["text"] += output.text
        yield Input(
            name=f"{kind} {number}",
            kind=kind,
            tensors={**prompt_tensors(text), **tensors_of(params), STREAM: np.array([[True]])},
            path=path,
            body={"model": MODEL_OF[kind], **body(text)},
            answers=answers,
        )


def _smallest_gap(model: Any, text: str, params: SamplingParams) -> float:
    watched = replace(params, logprobs=True, top_logprobs=2)
    tops = [top for output in model.stream(model.request(text, watched)) for top in output.top_logprobs]
    return min((top[0][1] - top[1][1] for top in tops), default=0.0)
