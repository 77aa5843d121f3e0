"""Send requests and print the answers: what the verbs of the command line do."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from json import dumps
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from attendant.errors import InputError
from attendant.printable import for_output, printable
from attendant.records import read_json
from clients.classify import Classifier
from clients.embed import Embedder, Pooling
from clients.explain import explain
from clients.health import health
from clients.predict import Predictor
from clients.triton_client import Array, TritonClient

SHOWN_VALUES = 6
SHOWN_CHARACTERS = 60


async def print_labels(client: TritonClient, model: str | None, images: Sequence[Path], top: int, json: bool) -> int:
    """A line for each image file: its most probable labels."""
    if not images:
        raise InputError("an image file", "none", "name one or more after the verb")
    classifier = await Classifier.find(client, model)
    for path in images:
        guesses = await classifier.classify_file(path, top)
        words = printable("  ".join(f"{guess.label} ({guess.probability:.1%})" for guess in guesses))
        value = {"image": str(path), "guesses": [asdict(guess) for guess in guesses]}
        _print(dumps(value) if json else f"{path}: {words}")
    return 0


async def print_vectors(
    client: TritonClient,
    model: str | None,
    texts: Sequence[str],
    pooling: Pooling,
    parse_special: bool,
    json: bool,
) -> int:
    """A vector for each text, and how similar two texts or more are."""
    vectors_BE = await (await Embedder.find(client, model)).embed(texts, pooling, parse_special)
    values = [
        dumps({"text": text, "vector": vector_E.tolist()}) for text, vector_E in zip(texts, vectors_BE, strict=True)
    ]
    for line in values if json else _format_vectors(texts, vectors_BE):
        _print(line)
    return 0


async def print_prediction(client: TritonClient, model: str | None, request: Path) -> int:
    """The outputs of one request as one JSON object: output name → nested lists."""
    try:
        inputs = read_json(request)
    except (OSError, ValueError) as error:
        raise InputError(f"a JSON file at {request}", str(error), "see docs/tutorials/your-own-model.md") from error
    if not isinstance(inputs, dict):
        raise InputError(f"an object in {request}: input name → rows", type(inputs).__name__, "name the inputs")
    outputs = await (await Predictor.find(client, model)).predict(inputs)
    _print(dumps({name: _lists(array) for name, array in outputs.items()}))
    return 0


async def print_explanation(client: TritonClient, model: str, subject: str, out: Path) -> int:
    """The answer and the shape of each array of its explanation, which goes into a file."""
    explanation = await explain(client, model, subject)
    explanation.save(out)
    _print(for_output(explanation.answer))
    for name, array in explanation.arrays.items():
        _print(f"{name}: {array.dtype} {list(array.shape)}")
    return 0


async def print_health(client: TritonClient, json: bool) -> int:
    """A line for each model; 1 unless all of them are healthy."""
    results = await health(client)
    for result in results:
        status = "ok" if result.healthy else "FAILED"
        found = " ".join(result.found.split())
        words = f"{result.name} ({result.task}): {status}, {result.latency_ms:.1f} ms: {found}"
        _print(dumps(asdict(result)) if json else printable(words))
    if not results:
        _print("no model is loaded")
    return 0 if results and all(result.healthy for result in results) else 1


def _format_vectors(texts: Sequence[str], vectors_BE: Array) -> Iterator[str]:
    norms_B = np.linalg.norm(vectors_BE, axis=1)
    yield f"{'':>3}  {'norm':>8}  {'first values':<{8 * SHOWN_VALUES}}  text"
    for number, (text, vector_E, norm) in enumerate(zip(texts, vectors_BE, norms_B, strict=True), 1):
        first = "".join(f"{value:+8.3f}" for value in vector_E[:SHOWN_VALUES])
        yield f"{number:>3}  {norm:>8.3f}  {first:<{8 * SHOWN_VALUES}}  {text[:SHOWN_CHARACTERS]}"
    if len(texts) > 1:
        unit_BE = vectors_BE / norms_B[:, None]
        yield f"cosine similarity, width {unit_BE.shape[1]}"
        yield "   " + "".join(f"{number:>8}" for number in range(1, len(unit_BE) + 1))
        for number, row_B in enumerate(unit_BE @ unit_BE.T, 1):
            yield f"{number:>3}" + "".join(f"{value:>8.3f}" for value in row_B)


def _lists(array: Array) -> Any:
    # As the gateway has them: a number that JSON has not is null.
    if array.dtype.kind in "OS":
        values = [text.decode(errors="replace") for text in array.flat]
    elif array.dtype.kind in "biu":
        return array.tolist()
    else:
        values = [value if isfinite(value) else None for value in array.reshape(-1).tolist()]
    return np.array(values, object).reshape(array.shape).tolist()


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
