"""Held-out dates, answered by PyTorch, by ONNX Runtime in this process, and by Triton over gRPC, token by token."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from clients.translate import Translator as ServedTranslator
from clients.triton_client import TritonClient
from models.checkpoints.store import Checkpoint
from models.families.seq2seq import Seq2SeqTransformer
from models.generate import greedy, pad_sources
from models.manifest import Manifest
from models.progress import progress
from models.tokenization import TOKENIZER_NAME, Tokenizer
from quickstart.answers import Answers
from serving.generation.translator import Translator


def in_pytorch(checkpoint: Checkpoint, texts: list[str]) -> Answers:
    """All texts in one batch of the eager model, without a cache."""
    model = checkpoint.model
    assert isinstance(model, Seq2SeqTransformer) and checkpoint.folder is not None
    tokenizer = Tokenizer.load(checkpoint.folder / TOKENIZER_NAME)
    sources = [tokenizer.encode(text, model.config.max_source_length) for text in texts]
    padded = pad_sources(sources, model.config.pad_token)
    answers = greedy(model, *padded, max_tokens=model.config.max_target_length - 1)
    return Answers(answers=[tokenizer.decode(answer) for answer in answers])


def in_process(folder: Path, texts: list[str]) -> Answers:
    """One text after the other, through the same decoding loop that the server uses."""
    translator = Translator(folder, Manifest.read(folder))
    timings = _Timings()
    for text in texts:
        timings.begin()
        for piece in translator.stream(translator.request(text)):
            timings.piece(piece.text)
        timings.end()
    return timings.answers()


def served(server: str, name: str, texts: list[str]) -> Answers:
    """One text a request, one request after the other, over gRPC."""
    return asyncio.run(_served(server, name, texts))


async def _served(server: str, name: str, texts: list[str]) -> Answers:
    timings = _Timings()
    async with TritonClient(server) as client:
        translator = await ServedTranslator.find(client, name)
        with progress("dates over gRPC", len(texts)) as advance:
            for text in texts:
                timings.begin()
                async for piece in translator.stream(text):
                    timings.piece(piece.text)
                advance(timings.end())
    return timings.answers()


class _Timings:
    """Times of a run of questions, filled in as their pieces come."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._latencies_ms: list[float] = []
        self._first_token_ms: list[float] = []
        self._tokens = 0

    def begin(self) -> None:
        self._began = time.perf_counter()
        self._said: list[str] = []

    def piece(self, text: str) -> None:
        if not self._said:
            self._first_token_ms.append((time.perf_counter() - self._began) * 1e3)
        self._said.append(text)

    def end(self) -> str:
        self._latencies_ms.append((time.perf_counter() - self._began) * 1e3)
        self._tokens += sum(bool(text) for text in self._said)
        self._texts.append("".join(self._said))
        return self._texts[-1]

    def answers(self) -> Answers:
        return Answers(
            answers=self._texts,
            latencies_ms=self._latencies_ms,
            first_token_ms=self._first_token_ms,
            tokens=self._tokens,
        )
