"""Ask a Triton server over gRPC: classify images, translate texts, check its health."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import asdict
from json import dumps
from pathlib import Path

from tyro.conf import Positional

from clients.triton_client import DEFAULT_SERVER, TritonClient
from models.cli import Verb, run
from models.errors import InputError


def classify(
    images: Positional[tuple[Path, ...]],
    server: str = DEFAULT_SERVER,
    model: str | None = None,
    top: int = 1,
    timeout_s: float = 10.0,
    json: bool = False,
) -> int:
    """Print the most probable label of each image file.

    Args:
        images: PNG, JPEG or whatever Pillow reads.
        server: host and port of the gRPC endpoint.
        model: which classifier, where the server has more than one.
        top: how many labels for each image.
        timeout_s: longest wait for an answer, in seconds.
        json: one JSON object a line.
    """
    return asyncio.run(_classify(images, server, model, top, timeout_s, json))


def translate(
    text: Positional[tuple[str, ...]] = (),
    server: str = DEFAULT_SERVER,
    model: str | None = None,
    max_tokens: int | None = None,
    timeout_s: float = 10.0,
    json: bool = False,
) -> int:
    """Translate a text, or each line of standard input, and print tokens as they come.

    Args:
        text: the words of one text; standard input is read if there are none.
        server: host and port of the gRPC endpoint.
        model: which translator, where the server has more than one.
        max_tokens: longest answer; as long as the model allows if not given.
        timeout_s: longest wait for each token, in seconds.
        json: one JSON object a line.
    """
    texts = [" ".join(text)] if text else [line.rstrip("\n") for line in sys.stdin]
    if not texts:
        raise InputError("a text", "an empty standard input", "give words after the verb, or pipe lines in")
    return asyncio.run(_translate(texts, server, model, max_tokens, timeout_s, json))


def health(server: str = DEFAULT_SERVER, timeout_s: float = 10.0, json: bool = False) -> int:
    """Send every model its example and compare the answer; exit status 1 if one is wrong.

    Args:
        server: host and port of the gRPC endpoint.
        timeout_s: longest wait for each answer, in seconds.
        json: one JSON object a line.
    """
    return asyncio.run(_health(server, timeout_s, json))


async def _classify(
    images: tuple[Path, ...], server: str, model: str | None, top: int, timeout_s: float, json: bool
) -> int:
    from clients.classify import Classifier

    if not images:
        raise InputError("an image file", "none", "name one or more after the verb")
    async with TritonClient(server, timeout_s) as client:
        classifier = await Classifier.find(client, model)
        for path in images:
            guesses = await classifier.classify_file(path, top)
            words = "  ".join(f"{guess.label} ({guess.probability:.1%})" for guess in guesses)
            value = {"image": str(path), "guesses": [asdict(guess) for guess in guesses]}
            _print(dumps(value) if json else f"{path}: {words}")
    return 0


async def _translate(
    texts: list[str], server: str, model: str | None, max_tokens: int | None, timeout_s: float, json: bool
) -> int:
    from clients.translate import Translator

    async with TritonClient(server, timeout_s) as client:
        translator = await Translator.find(client, model)
        for text in texts:
            pieces = []
            async for piece in translator.stream(text, max_tokens):
                pieces.append(piece)
                if not json:
                    sys.stdout.write(piece.text)
                    sys.stdout.flush()
            answer = "".join(piece.text for piece in pieces)
            value = {"text": text, "answer": answer, "finish_reason": pieces[-1].finish_reason}
            _print(dumps(value) if json else "")
    return 0


async def _health(server: str, timeout_s: float, json: bool) -> int:
    from clients.health import health as check

    async with TritonClient(server, timeout_s) as client:
        results = await check(client)
    for result in results:
        verdict = "ok" if result.healthy else "FAILED"
        words = f"{result.name} ({result.task}): {verdict}, {result.latency_ms:.1f} ms: {result.found}"
        _print(dumps(asdict(result)) if json else words)
    if not results:
        _print("no model is loaded")
    return 0 if results and all(result.healthy for result in results) else 1


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    verbs: dict[str, Verb] = {"classify": classify, "translate": translate, "health": health}
    run("python -m clients", str(__doc__), verbs, sys.argv[1:])
