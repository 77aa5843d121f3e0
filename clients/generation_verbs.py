"""The verbs of generative models, and their flags."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from json import dumps
from math import exp
from pathlib import Path
from typing import Annotated, Any, TypeVar

from tyro.conf import OmitArgPrefixes, Positional, UseAppendAction, arg

from attendant.errors import InputError
from attendant.sampling_params import PARAMS, TYPES, SamplingParams, default_of
from clients.answer import Answer, Delta, TopTokens, whole_answers
from clients.caption import Captioner
from clients.generate import Generator
from clients.text import StreamingModel, TextModel
from clients.translate import Translator
from clients.triton_client import DEFAULT_SERVER, RetryPolicy, TritonClient

EXPLAINED = ("alignment", "token_texts", "source_texts")
"""What an answer carries for `attendant explain`, which saves it."""


async def print_texts(model: TextModel, texts: Sequence[str], options: SamplingParams, json: bool) -> int:
    """The answers to each text, and a new line behind each."""
    for text in texts:
        await _print_answers({"text": text}, "", model.stream(text, options), options, json)
    return 0


async def print_captions(captioner: Captioner, images: Sequence[Path], options: SamplingParams, json: bool) -> int:
    """The captions of each image file behind its name, and a new line behind each."""
    for path in images:
        await _print_answers({"image": str(path)}, f"{path}: ", captioner.stream_file(path, options), options, json)
    return 0


async def _print_answers(
    subject: dict[str, str], title: str, stream: AsyncIterator[Delta], options: SamplingParams, json: bool
) -> None:
    at_once = not json and options.n == 1
    pieces = []
    _write(title if at_once else "")
    async for piece in stream:
        pieces.append(piece)
        _write(piece.text if at_once else "")
    answers = whole_answers(pieces)
    for number, answer in enumerate(answers):
        if json:
            _write(dumps({**subject, **_said(number, answer)}) + "\n")
            continue
        _write("" if at_once else f"{title}[{number + 1}] {answer.text}")
        _write("\n" + "".join(f"{line}\n" for line in _notes(answer)))
        _write("".join(f"{line}\n" for line in _table(pieces, number)))


def _said(number: int, answer: Answer) -> dict[str, Any]:
    values = {field.name: getattr(answer, field.name) for field in fields(answer) if field.name not in EXPLAINED}
    text = values.pop("text")
    return {"candidate": number, "answer": text} | {
        name: value for name, value in values.items() if value is not None and value != ()
    }


def _notes(answer: Answer) -> Iterator[str]:
    if answer.score is not None:
        yield f"    score {answer.score:.4f}"
    if answer.input_tokens is not None:
        yield f"    {answer.input_tokens} tokens in, {answer.output_tokens} out"


def _table(pieces: Sequence[Delta], candidate: int) -> Iterator[str]:
    # A piece may hold several tokens, and which part of its text is whose only the server knows.
    rows = [piece for piece in pieces if piece.candidate == candidate and piece.logprobs]
    if rows:
        yield f"    {'token':>7}  {'logprob':>9}  {'probability':>11}  text"
    for piece in rows:
        tops = piece.top_logprobs or ((),) * len(piece.token_ids)
        for place, (token, value, top) in enumerate(zip(piece.token_ids, piece.logprobs, tops, strict=True), 1):
            text = repr(piece.text) if place == len(piece.token_ids) else "…"
            yield f"    {token:>7}  {value:>9.4f}  {exp(value):>11.2%}  {text}{_alternatives(top)}"


def _alternatives(top: TopTokens) -> str:
    return "".join(f"  {token}: {value:.4f}" for token, value in top)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


@dataclass(frozen=True, kw_only=True)
class Asking:
    """Which server to ask, and how long to wait.

    Attributes:
        server: host and port of the gRPC endpoint; several, with commas between, are tried in turn.
        model: which one, where the server has more than one for the task.
        timeout_s: longest wait for each token, in seconds.
        first_timeout_s: longest wait for the first token, which may wait in the queue; as for others if not given.
        tries: how often a request is sent while the server is busy or gone; never after the first token.
        json: one JSON object a line: an answer with all that is known of it.
    """

    server: str = DEFAULT_SERVER
    model: str | None = None
    timeout_s: float = 10.0
    first_timeout_s: float | None = None
    tries: int = 1
    json: bool = False


def _flags() -> Any:
    """A class for tyro: a group of flags for each of the parameters' groups."""
    groups: dict[str, list[Any]] = {}
    for name, param in PARAMS.items():
        default = default_of(name)
        value = field(default_factory=dict) if default == {} else field(default=default)
        groups.setdefault(param.group, []).append((name, Annotated[TYPES[name], arg(help=param.help)], value))
    made = {group: make_dataclass(group, rows, frozen=True, kw_only=True) for group, rows in groups.items()}
    return make_dataclass(
        "Flags",
        [(group.lower().replace(" ", "_"), kind, field(default_factory=kind)) for group, kind in made.items()],
        frozen=True,
        kw_only=True,
    )


def _params(flags: Any) -> SamplingParams:
    groups = [getattr(flags, group.name) for group in fields(flags)]
    return SamplingParams(**{one.name: getattr(group, one.name) for group in groups for one in fields(group)})


_Flags: Any = _flags()
Model = TypeVar("Model", bound=StreamingModel)
Flags = Annotated[_Flags, OmitArgPrefixes, UseAppendAction, arg(name="")]
_AS_IT_COMES = _Flags()
_ASKING = Asking()


def caption(
    images: Positional[tuple[Path, ...]],
    asking: OmitArgPrefixes[Asking] = _ASKING,
    decoding: Flags = _AS_IT_COMES,
) -> int:
    """Describe each image file, and print tokens as they come.

    Args:
        images: PNG, JPEG or whatever Pillow reads.
        asking: which server, and how long to wait.
        decoding: how the answer is decoded.
    """
    if not images:
        raise InputError("an image file", "none", "name one or more after the verb")
    return _asked(Captioner, asking, lambda model: print_captions(model, images, _params(decoding), asking.json))


def translate(
    text: Positional[tuple[str, ...]] = (),
    asking: OmitArgPrefixes[Asking] = _ASKING,
    decoding: Flags = _AS_IT_COMES,
) -> int:
    """Translate a text, or each line of standard input, and print tokens as they come.

    Args:
        text: the words of one text; standard input is read if there are none.
        asking: which server, and how long to wait.
        decoding: how the answer is decoded.
    """
    return _answered(Translator, text, asking, decoding)


def generate(
    prompt: Positional[tuple[str, ...]] = (),
    asking: OmitArgPrefixes[Asking] = _ASKING,
    decoding: Flags = _AS_IT_COMES,
) -> int:
    """Continue a prompt, or each line of standard input, and print tokens as they come.

    Args:
        prompt: the words of one prompt; standard input is read if there are none.
        asking: which server, and how long to wait.
        decoding: how the answer is decoded.
    """
    return _answered(Generator, prompt, asking, decoding)


def lines() -> list[str]:
    """The lines of standard input.

    Raises:
        InputError: there is none.
    """
    found = [line.rstrip("\n") for line in sys.stdin]
    if not found:
        raise InputError("a text", "an empty standard input", "give words after the verb, or pipe lines in")
    return found


def _answered(kind: type[TextModel], words: tuple[str, ...], asking: Asking, decoding: Any) -> int:
    texts = [" ".join(words)] if words else lines()
    return _asked(kind, asking, lambda model: print_texts(model, texts, _params(decoding), asking.json))


def _asked(kind: type[Model], asking: Asking, question: Callable[[Model], Awaitable[int]]) -> int:
    async def asked() -> int:
        async with TritonClient(asking.server, asking.timeout_s, RetryPolicy(tries=asking.tries)) as client:
            return await question(await kind.find(client, asking.model, asking.first_timeout_s))

    return asyncio.run(asked())
