"""The routes that OpenAI has not: ``/v1/classify``, ``/v1/translate`` and ``/v1/caption``; options have our names."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from clients.decoding import Decoding
from serving.gateway.schemas.base import Name, Strict, Usage
from serving.gateway.schemas.decoding import INT32, Count, Options


class NativeOptions(Options):
    """Every option of docs/guides/decoding.md, by its name there, and how the answer is sent."""

    stream: bool = False
    max_tokens: Annotated[int, Field(ge=1, le=INT32)] | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] | None = Field(default=None, description="greedy if not given")
    candidates: Annotated[int, Field(ge=1, le=32)] | None = None
    stop: list[str] = Field(default_factory=list)
    any_json: bool = False
    json_schema: str | None = None
    logprobs: bool = False
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    explain: bool = Field(default=False, description="each token comes with its alignment to the source or the image")

    def decoding(self) -> Decoding:
        """The same for a client of ours.

        Raises:
            InputError: options that exclude each other.
        """
        return Decoding(
            **self.shared(),
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            candidates=self.candidates,
            stop=tuple(self.stop),
            any_json=self.any_json,
            json_schema=self.json_schema,
            logprobs=self.logprobs,
            top_logprobs=self.top_logprobs,
            token_counts=True,
            explain=self.explain,
        )


class TranslationRequest(NativeOptions):
    """A text to translate."""

    model: Name
    input: Annotated[str, Field(examples=["3rd of march 1997"])]


class CaptionRequest(NativeOptions):
    """An image to describe, in base64."""

    model: Name
    image: str = Field(description="a PNG, JPEG, WebP, GIF or BMP file in base64, also as a data URL")


class ClassificationRequest(Strict):
    """An image to classify, in base64."""

    model: Name
    image: str = Field(description="a PNG, JPEG, WebP, GIF or BMP file in base64, also as a data URL")
    top_k: Annotated[int, Field(ge=1, le=1000)] = 5


class Label(BaseModel):
    """One label, and how probable it is."""

    label: str
    probability: float


class Classification(BaseModel):
    """The most probable labels, best first."""

    model: str
    labels: list[Label]


class TopToken(BaseModel):
    """A token and its log-probability."""

    token_id: Count
    logprob: float


class Written(BaseModel):
    """An answer; of a stream, a piece of one.

    Attributes:
        index: which of several answers.
        text: what it says, or adds.
        finish_reason: none before the end.
        token_ids: of the text.
        logprobs: of each token, if asked for.
        top_logprobs: for each token the most probable ones, if asked for.
        score: of a beam.
        alignment: for each token the weights of the source's positions or the image's patches, if asked for.
        tokens: what each token adds to the text, if an alignment was asked for.
        source: what stands at each position of a source; with the first piece of an alignment.
    """

    index: int
    text: str
    finish_reason: Literal["stop", "length"] | None
    token_ids: list[int]
    logprobs: list[float] | None = None
    top_logprobs: list[list[TopToken]] | None = None
    score: float | None = None
    alignment: list[list[float]] | None = None
    tokens: list[str] | None = None
    source: list[str] | None = None


class WrittenAnswers(BaseModel):
    """Answers."""

    model: str
    answers: list[Written]
    usage: Usage
