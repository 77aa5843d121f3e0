"""Questions answered with text: by PyTorch, by ONNX Runtime in this process, and by Triton, token by token."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from attendant.progress import progress
from attendant.sampling_params import SamplingParams
from attendant.tokenization import load_tokenizer
from clients.caption import Captioner as ServedCaptioner
from clients.text import TextModel as ServedText
from clients.triton_client import TritonClient
from commands.quickstart.answers import Answers
from models.checkpoints.store import Checkpoint
from models.generate import (
    CaptionModel,
    TranslationModel,
    caption_greedily,
    continue_greedily,
    pad_sources,
    translate_greedily,
)
from serving.engine.text_generation_model import TextGenerationModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """What a model that answers with text is asked.

    Attributes:
        subjects: sources, prompts or images.
        max_tokens: longest answer; as long as the model allows if None.
    """

    subjects: Sequence[Any]
    max_tokens: int | None = None


def translated_in_pytorch(checkpoint: Checkpoint, questions: Questions) -> Answers:
    """All texts in one batch of the eager model, without a cache."""
    assert checkpoint.folder is not None
    model: TranslationModel = checkpoint.model  # type: ignore[assignment]  # an nn.Module of a translating family
    tokenizer = load_tokenizer(checkpoint.folder, checkpoint.details.get("tokenizer"))
    sources = [tokenizer.encode(text, checkpoint.config.max_source_length) for text in questions.subjects]
    padded = pad_sources(sources, checkpoint.config.pad_token)
    answers = translate_greedily(
        model, *padded, max_tokens=questions.max_tokens or checkpoint.config.max_target_length - 1
    )
    return Answers(answers=[tokenizer.decode(answer) for answer in answers])


def continued_in_pytorch(checkpoint: Checkpoint, questions: Questions) -> Answers:
    """One prompt after the other through the eager model, without a cache."""
    assert checkpoint.folder is not None and questions.max_tokens is not None
    tokenizer = load_tokenizer(checkpoint.folder, checkpoint.details.get("tokenizer"))
    end_tokens = checkpoint.details.get("end_tokens", ())
    answers = []
    for text in questions.subjects:
        prompt = tokenizer.encode(text, checkpoint.config.max_length - questions.max_tokens)
        answers.append(tokenizer.decode(continue_greedily(checkpoint.model, prompt, questions.max_tokens, end_tokens)))
    return Answers(answers=answers)


def described_in_pytorch(checkpoint: Checkpoint, questions: Questions) -> Answers:
    """All images in one batch of the eager model, without a cache."""
    assert checkpoint.folder is not None
    model: CaptionModel = checkpoint.model  # type: ignore[assignment]  # an nn.Module of a captioning family
    tokenizer = load_tokenizer(checkpoint.folder, checkpoint.details.get("tokenizer"))
    answers = caption_greedily(
        model, torch.from_numpy(np.stack(questions.subjects)), checkpoint.config.max_target_length - 1
    )
    return Answers(answers=[tokenizer.decode(answer) for answer in answers])


def in_process(model: TextGenerationModel, questions: Questions) -> Answers:
    """One question after the other, through the same decoding loop that the server uses."""
    timings = _Timings()
    for subject in questions.subjects:
        timings.begin()
        for piece in model.stream(model.request(subject, SamplingParams(max_tokens=questions.max_tokens))):
            timings.piece(piece.text, len(piece.token_ids))
        timings.end()
    return timings.answers()


def served(kind: type[ServedText] | type[ServedCaptioner], server: str, name: str, questions: Questions) -> Answers:
    """One question a request, one request after the other, over gRPC."""
    return asyncio.run(_served(kind, server, name, questions))


async def _served(
    kind: type[ServedText] | type[ServedCaptioner], server: str, name: str, questions: Questions
) -> Answers:
    timings = _Timings()
    async with TritonClient(server) as client:
        model = await kind.find(client, name)
        with progress(f"{name} over gRPC", len(questions.subjects)) as advance:
            for subject in questions.subjects:
                timings.begin()
                async for piece in model.stream(subject, SamplingParams(max_tokens=questions.max_tokens)):
                    timings.piece(piece.text, len(piece.token_ids))
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

    def piece(self, text: str, tokens: int) -> None:
        if not self._said:
            self._first_token_ms.append((time.perf_counter() - self._began) * 1e3)
        self._said.append(text)
        self._tokens += tokens

    def end(self) -> str:
        self._latencies_ms.append((time.perf_counter() - self._began) * 1e3)
        self._texts.append("".join(self._said))
        return self._texts[-1]

    def answers(self) -> Answers:
        return Answers(
            answers=self._texts,
            latencies_ms=self._latencies_ms,
            first_token_ms=self._first_token_ms,
            tokens=self._tokens,
        )
