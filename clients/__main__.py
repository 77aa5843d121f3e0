"""Ask a Triton server over gRPC.

    python -m clients health                              is every model well?
    python -m clients classify docs/examples/three.png    an image → labels
    python -m clients caption photo.jpg                   an image → what it shows, token by token
    python -m clients translate 3rd of march 1997         a text → another text, token by token
    python -m clients generate Once upon a time           a prompt → what comes next, token by token
    python -m clients embed "a cat sat" "the cat lay"     texts → vectors, and how alike they are
    python -m clients predict request.json                tensors → tensors, by a model of your own
    python -m clients explain three.png --model digits-vit --out why.npz      what an answer was read off
    python -m clients load run scenario.toml              how fast a server answers, and whether rightly

An address is all that a client has to be told (--server, else 127.0.0.1:8001); --model is needed only where a server
has more than one model for a task. Texts that are not given after the verb are read from standard input, one a line.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NoReturn

from tyro.conf import Positional

from attendant.cli import Verb, run
from clients import terminal
from clients.embed import Pooling
from clients.load import verbs as load_verbs
from clients.triton_client import DEFAULT_SERVER, TritonClient
from clients.writing_verbs import caption, generate, lines, translate

LOAD_PROGRAM = "python -m clients load"


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
    return _asked(server, timeout_s, lambda client: terminal.print_labels(client, model, images, top, json))


def embed(
    texts: Positional[tuple[str, ...]] = (),
    server: str = DEFAULT_SERVER,
    model: str | None = None,
    pooling: Pooling = "mean",
    timeout_s: float = 10.0,
    json: bool = False,
) -> int:
    """Turn texts into vectors, and print how alike they are.

    Args:
        texts: each in quotes; the lines of standard input if there are none.
        server: host and port of the gRPC endpoint.
        model: which text encoder, where the server has more than one.
        pooling: the mean of the tokens' vectors, the first one, or what the model itself makes of the first.
        timeout_s: longest wait for an answer, in seconds.
        json: one JSON object a line, with the whole vector.
    """
    given = list(texts) or lines()
    return _asked(server, timeout_s, lambda client: terminal.print_vectors(client, model, given, pooling, json))


def predict(
    request: Positional[Path], server: str = DEFAULT_SERVER, model: str | None = None, timeout_s: float = 10.0
) -> int:
    """Send one request to a model of your own, and print its outputs as JSON.

    Args:
        request: a JSON file: input name → nested lists, one row a request in a list of rows.
        server: host and port of the gRPC endpoint.
        model: which model, where the server has more than one.
        timeout_s: longest wait for an answer, in seconds.
    """
    return _asked(server, timeout_s, lambda client: terminal.print_prediction(client, model, request))


def explain(
    subject: Positional[str], model: str, out: Path, server: str = DEFAULT_SERVER, timeout_s: float = 10.0
) -> int:
    """Save what a model attends to as arrays: attention maps of a classifier, the alignment of a text.

    Args:
        subject: an image file, or of a translator a text in quotes.
        model: one that was exported so that it can be explained, or a recurrent one with attention.
        out: the .npz file.
        server: host and port of the gRPC endpoint.
        timeout_s: longest wait for an answer, in seconds.
    """
    return _asked(server, timeout_s, lambda client: terminal.print_explanation(client, model, subject, out))


def health(server: str = DEFAULT_SERVER, timeout_s: float = 10.0, json: bool = False) -> int:
    """Send every model its example and compare the answer; exit status 1 if one is wrong.

    Args:
        server: host and port of the gRPC endpoint.
        timeout_s: longest wait for each answer, in seconds.
        json: one JSON object a line.
    """
    return _asked(server, timeout_s, lambda client: terminal.print_health(client, json))


def load() -> NoReturn:
    """Test a server under load; see `python -m clients load --help`."""
    run(LOAD_PROGRAM, str(load_verbs.__doc__), load_verbs.VERBS, ["--help"])


def _asked(server: str, timeout_s: float, question: Callable[[TritonClient], Awaitable[int]]) -> int:
    async def asked() -> int:
        async with TritonClient(server, timeout_s) as client:
            return await question(client)

    return asyncio.run(asked())


if __name__ == "__main__":
    if sys.argv[1:2] == ["load"] and sys.argv[2:]:
        run(LOAD_PROGRAM, str(load_verbs.__doc__), load_verbs.VERBS, sys.argv[2:])
    verbs: dict[str, Verb] = {
        "health": health,
        "classify": classify,
        "caption": caption,
        "translate": translate,
        "generate": generate,
        "embed": embed,
        "predict": predict,
        "explain": explain,
        "load": load,
    }
    run("python -m clients", str(__doc__), verbs, sys.argv[1:])
