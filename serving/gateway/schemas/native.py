"""The routes that OpenAI has not: ``/v1/classify``, ``/v1/translate`` and ``/v1/caption``; options have our names."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, create_model

from attendant.sampling_params import PARAMS, SamplingParams
from serving.gateway.schemas.base import Name, Strict, Usage
from serving.gateway.schemas.sampling_params import Token, fields_of, params_of

_NATIVE = [name for name in PARAMS if name not in ("echo", "token_counts")]
_Native: Any = create_model("_Native", __base__=Strict, **fields_of(_NATIVE))


class NativeOptions(_Native):  # type: ignore[misc]  # its fields are rows of a table
    """Every parameter of docs/reference/sampling-parameters.md, by its name there, and how the answer is sent."""

    stream: bool = False
    explain: bool = Field(default=False, description="each token comes with its alignment to the source or the image")

    def sampling_params(self) -> SamplingParams:
        """The same for a client of ours.

        Raises:
            InputError: parameters that exclude each other.
        """
        return SamplingParams(**params_of(self, _NATIVE), token_counts=True, explain=self.explain)


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

    token_id: Token
    logprob: float


class NativeAnswer(BaseModel):
    """An answer; of a stream, a delta of one.

    Attributes:
        index: which of several answers.
        text: what it says, or adds.
        finish_reason: none before the end.
        token_ids: of the text.
        logprobs: of each token, if requested.
        top_logprobs: for each token the most probable ones, if requested.
        score: of a beam.
        alignment: for each token the weights of the source's positions or the image's patches, if requested.
        tokens: what each token adds to the text, if an alignment was requested.
        source: what stands at each position of a source; with the first delta of an alignment.
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


class NativeAnswers(BaseModel):
    model: str
    answers: list[NativeAnswer]
    usage: Usage
