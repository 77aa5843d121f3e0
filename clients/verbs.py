"""The verbs that send requests to a server."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from tyro.conf import OmitArgPrefixes, Positional

from attendant.errors import InputError
from clients import terminal
from clients.embed import Pooling
from clients.generation_verbs import lines
from clients.tls import Tls
from clients.triton_client import DEFAULT_SERVER, TritonClient

_NO_TLS = Tls()


def classify(
    images: Positional[tuple[Path, ...]],
    server: str = DEFAULT_SERVER,
    model: str | None = None,
    top: int = 1,
    timeout_s: float = 10.0,
    security: OmitArgPrefixes[Tls] = _NO_TLS,
    json: bool = False,
) -> int:
    """Print the most probable label of each image file.

    Args:
        images: PNG, JPEG or whatever Pillow reads.
        server: host and port of the gRPC endpoint.
        model: which classifier, where the server has more than one.
        top: how many labels for each image.
        timeout_s: longest wait for an answer, in seconds.
        security: TLS towards the server.
        json: one JSON object a line.
    """
    if top < 1:
        raise InputError("--top of at least 1", str(top), "correct it")
    return _run(server, timeout_s, security, lambda client: terminal.print_labels(client, model, images, top, json))


def embed(
    texts: Positional[tuple[str, ...]] = (),
    server: str = DEFAULT_SERVER,
    model: str | None = None,
    pooling: Pooling = "mean",
    parse_special: bool = False,
    timeout_s: float = 10.0,
    security: OmitArgPrefixes[Tls] = _NO_TLS,
    json: bool = False,
) -> int:
    """Turn texts into vectors, and print how similar they are.

    Args:
        texts: each in quotes; the lines of standard input if there are none.
        server: host and port of the gRPC endpoint.
        model: which text encoder, where the server has more than one.
        pooling: the mean of the tokens' vectors, the first one, or what the model itself makes of the first.
        parse_special: special tokens that stand in a text, as [MASK], are read as such; without, a text is text.
        timeout_s: longest wait for an answer, in seconds.
        security: TLS towards the server.
        json: one JSON object a line, with the whole vector.
    """
    given = list(texts) or lines()
    return _run(
        server,
        timeout_s,
        security,
        lambda client: terminal.print_vectors(client, model, given, pooling, parse_special, json),
    )


def predict(
    request: Positional[Path],
    server: str = DEFAULT_SERVER,
    model: str | None = None,
    timeout_s: float = 10.0,
    security: OmitArgPrefixes[Tls] = _NO_TLS,
) -> int:
    """Send one request to a model of your own, and print its outputs as JSON.

    Args:
        request: a JSON file: input name → nested lists, one row a request in a list of rows.
        server: host and port of the gRPC endpoint.
        model: which model, where the server has more than one.
        timeout_s: longest wait for an answer, in seconds.
        security: TLS towards the server.
    """
    return _run(server, timeout_s, security, lambda client: terminal.print_prediction(client, model, request))


def explain(
    subject: Positional[str],
    model: str,
    out: Path,
    server: str = DEFAULT_SERVER,
    timeout_s: float = 10.0,
    security: OmitArgPrefixes[Tls] = _NO_TLS,
) -> int:
    """Save what a model attends to as arrays: attention maps of a classifier, the alignment of a text to what it read.

    Args:
        subject: an image file, or of a translator or a language model a text in quotes.
        model: one that was exported so that it can be explained, or a recurrent one with attention.
        out: the .npz file.
        server: host and port of the gRPC endpoint.
        timeout_s: longest wait for an answer, in seconds.
        security: TLS towards the server.
    """
    return _run(server, timeout_s, security, lambda client: terminal.print_explanation(client, model, subject, out))


def health(
    server: str = DEFAULT_SERVER,
    timeout_s: float = 10.0,
    security: OmitArgPrefixes[Tls] = _NO_TLS,
    json: bool = False,
) -> int:
    """Send every model its example and compare the answer; exit status 1 if one is wrong.

    Args:
        server: host and port of the gRPC endpoint.
        timeout_s: longest wait for each answer, in seconds.
        security: TLS towards the server.
        json: one JSON object a line.
    """
    return _run(server, timeout_s, security, lambda client: terminal.print_health(client, json))


def _run(server: str, timeout_s: float, security: Tls, work: Callable[[TritonClient], Awaitable[int]]) -> int:
    async def run() -> int:
        async with TritonClient(server, timeout_s, tls=security) as client:
            return await work(client)

    return asyncio.run(run())
