"""The verbs of generative models, and their flags."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from json import dumps
from math import exp, isfinite
from pathlib import Path
from typing import Annotated, Any, TypeVar

from tyro.conf import OmitArgPrefixes, Positional, UseAppendAction, arg

from attendant.errors import InputError
from attendant.printable import for_output
from attendant.sampling_params import PARAMS, TYPES, SamplingParams, default_of
from clients.answer import Answer, Delta, whole_answers
from clients.caption import Captioner
from clients.generate import Generator
from clients.retry import RetryPolicy
from clients.text import StreamingModel, TextModel
from clients.tls import Tls
from clients.translate import Translator
from clients.triton_client import DEFAULT_SERVER, TritonClient

HIDDEN = ("text", "alignment", "token_texts", "source_texts")
"""Not among the values of a JSON line: the text is its `answer`, and `attendant explain` saves the rest."""


async def print_texts(
    model: TextModel, prompts: Sequence[str | Sequence[int]], options: SamplingParams, json: bool
) -> int:
    """The answers to each prompt, and a new line behind each; of several, one that is refused stops no other."""
    status, in_ids = 0, model.model.token_ids_only
    for number, prompt in enumerate(prompts, 1):
        source = {"text": prompt} if isinstance(prompt, str) else {"input_ids": list(prompt)}
        try:
            await _print_answers(source, "", model.stream(prompt, options), options, json, in_ids)
        except InputError as error:
            if len(prompts) == 1:
                raise
            sys.stdout.write("" if json else "\n")  # its line: answers stay beside their texts
            sys.stdout.flush()
            sys.stderr.write(f"error: line {number}: {error}\n")
            status = error.exit_status
    return status


async def print_captions(captioner: Captioner, images: Sequence[Path], options: SamplingParams, json: bool) -> int:
    """The captions of each image file behind its name, and a new line behind each."""
    for path in images:
        await _print_answers({"image": str(path)}, f"{path}: ", captioner.stream_file(path, options), options, json)
    return 0


async def _print_answers(
    source: Mapping[str, Any],
    title: str,
    stream: AsyncIterator[Delta],
    options: SamplingParams,
    json: bool,
    in_ids: bool = False,
) -> None:
    at_once = not json and options.n == 1
    deltas: list[Delta] = []
    _write(title if at_once else "")
    async for delta in stream:
        deltas.append(delta)
        _write(_said(delta, in_ids) if at_once else "")
    answers = whole_answers(deltas)
    for number, answer in enumerate(answers):
        if json:
            values = {name: getattr(answer, name) for name in (one.name for one in fields(answer))}
            values["prompt_tokens"] = answer.prompt_tokens or None  # none where the prompt was not scored
            known = {name: _plain(one) for name, one in values.items() if name not in HIDDEN and one not in (None, ())}
            _write(dumps({**source, "candidate": number, "answer": answer.text, **known}, allow_nan=False) + "\n")
            continue
        _write("" if at_once else f"{title}[{number + 1}] {_said(answer, in_ids)}")
        _write("\n" + "".join(f"{line}\n" for line in _format_notes(answer)))
        _write("".join(f"{line}\n" for line in _format_tokens(deltas, number)))


def _plain(value: Any) -> Any:
    """As JSON has it: bytes are numbers, and what is no finite number, as a prompt's first log-probability, is null."""
    if isinstance(value, tuple | bytes):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def _said(answer: Delta | Answer, in_ids: bool) -> str:
    # Of a model without a tokenizer the tokens themselves, each with a blank behind it.
    return "".join(f"{token} " for token in answer.token_ids) if in_ids else answer.text


def _format_notes(answer: Answer) -> Iterator[str]:
    if answer.score is not None:
        yield f"    score {answer.score:.4f}"
    if answer.input_tokens is not None:
        yield f"    {answer.input_tokens} tokens in, {answer.output_tokens} out"


def _format_tokens(deltas: Sequence[Delta], candidate: int) -> Iterator[str]:
    # A delta may hold several tokens, and which part of its text is whose only the server knows.
    rows = [delta for delta in deltas if delta.candidate == candidate and delta.logprobs]
    if rows:
        yield f"    {'token':>7}  {'logprob':>9}  {'probability':>11}  text"
    for delta in rows:
        tops = delta.top_logprobs or ((),) * len(delta.token_ids)
        for place, (token, value, top) in enumerate(zip(delta.token_ids, delta.logprobs, tops, strict=True), 1):
            alternatives = "".join(f"  {other}: {logprob:.4f}" for other, logprob in top)
            text = repr(delta.text) if place == len(delta.token_ids) else "…"
            yield f"    {token:>7}  {value:>9.4f}  {exp(min(value, 0.0)):>11.2%}  {text}{alternatives}"


def _write(text: str) -> None:
    sys.stdout.write(for_output(text))
    sys.stdout.flush()


@dataclass(frozen=True, kw_only=True)
class ClientFlags:
    """Which server, and how long to wait.

    Attributes:
        server: host and port of the gRPC endpoint; several, with commas between, are tried in turn.
        model: which one, where the server has more than one for the task.
        timeout_s: longest wait for each token, in seconds.
        first_timeout_s: longest wait for the first token, which may wait in the queue; as for others if not given.
        tries: how often a request is sent while the server is busy or gone; never after the first token.
        security: TLS towards the server.
        json: one JSON object a line: an answer with all that is known of it.
    """

    server: str = DEFAULT_SERVER
    model: str | None = None
    timeout_s: float = 10.0
    first_timeout_s: float | None = None
    tries: int = 1
    security: OmitArgPrefixes[Tls] = field(default_factory=Tls)
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
_DEFAULTS = _Flags()
_CLIENT = ClientFlags()


def caption(
    images: Positional[tuple[Path, ...]],
    client: OmitArgPrefixes[ClientFlags] = _CLIENT,
    decoding: Flags = _DEFAULTS,
) -> int:
    """Describe each image file, and print tokens as they come.

    Args:
        images: PNG, JPEG or whatever Pillow reads.
        client: which server, and how long to wait.
        decoding: how the answer is decoded.
    """
    if not images:
        raise InputError("an image file", "none", "name one or more after the verb")
    return _run(Captioner, client, lambda model: print_captions(model, images, _params(decoding), client.json))


def translate(
    text: Positional[tuple[str, ...]] = (),
    client: OmitArgPrefixes[ClientFlags] = _CLIENT,
    decoding: Flags = _DEFAULTS,
) -> int:
    """Translate a text, or each line of standard input, and print tokens as they come.

    Args:
        text: the words of one text; standard input is read if there are none.
        client: which server, and how long to wait.
        decoding: how the answer is decoded.
    """
    return _print_lines(Translator, text, client, decoding)


def generate(
    prompt: Positional[tuple[str, ...]] = (),
    token_ids: tuple[int, ...] = (),
    client: OmitArgPrefixes[ClientFlags] = _CLIENT,
    decoding: Flags = _DEFAULTS,
) -> int:
    """Continue a prompt, or each line of standard input, and print tokens as they come.

    Args:
        prompt: the words of one prompt; standard input is read if there are none.
        token_ids: a prompt by its tokens, in place of words; the answer of a model without a tokenizer is tokens too.
        client: which server, and how long to wait.
        decoding: how the answer is decoded.
    """
    if not token_ids:
        return _print_lines(Generator, prompt, client, decoding)
    if prompt:
        raise InputError("a prompt in words or by its tokens", "both", "leave the words or --token-ids out")
    return _run(Generator, client, lambda model: print_texts(model, [token_ids], _params(decoding), client.json))


def lines() -> list[str]:
    """The lines of standard input.

    Raises:
        InputError: there is none, or it is no UTF-8.
    """
    try:
        found = [line.removesuffix("\n").removesuffix("\r") for line in sys.stdin]
        "".join(found).encode()
    except UnicodeError as error:
        expected = "standard input in UTF-8"
        raise InputError(expected, str(error), "convert it: iconv -f LATIN1 -t UTF-8, say") from error
    if not found:
        raise InputError("a text", "an empty standard input", "give words after the verb, or pipe lines in")
    return found


def _print_lines(kind: type[TextModel], words: tuple[str, ...], client: ClientFlags, decoding: Any) -> int:
    texts = [" ".join(words)] if words else lines()
    if any(one.encode(errors="replace").decode() != one for one in texts):
        raise InputError("words in UTF-8", repr(texts[0])[:80], "convert them: iconv -f LATIN1 -t UTF-8, say")
    return _run(kind, client, lambda model: print_texts(model, texts, _params(decoding), client.json))


def _run(kind: type[Model], flags: ClientFlags, work: Callable[[Model], Awaitable[int]]) -> int:
    async def run() -> int:
        retry = RetryPolicy(tries=flags.tries)
        async with TritonClient(flags.server, flags.timeout_s, retry, flags.security) as client:
            return await work(await kind.find(client, flags.model, flags.first_timeout_s))

    return asyncio.run(run())
