"""Print what models write: one answer token by token as it comes, several one after another, and their tokens."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import fields
from json import dumps
from math import exp
from pathlib import Path
from typing import Any

from attendant.sampling_params import SamplingParams
from clients.answer import Answer, Delta, TopTokens, whole_answers
from clients.caption import Captioner
from clients.text import TextModel

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
