"""``/v1/explain``."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from serving.gateway.explain.maps import Kind
from serving.gateway.schemas.base import Name, Strict
from serving.gateway.schemas.native import Label

MOST_LABELS, MOST_TOKENS = 5, 1024
Number = Annotated[int, Field(ge=1, le=1024)]


class ExplanationRequest(Strict):
    """An image or a text, and what is to be shown of it."""

    model: Name
    image: str = Field(default="", description="a PNG, JPEG, WebP, GIF or BMP file in base64, also as a data URL")
    input: Annotated[str, Field(examples=["3rd of march 1997"])] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] | None = Field(
        default=None, description="of a language model's answer, each a row of its alignment; few if not given"
    )
    kind: Kind | None = Field(default=None, description="the first of the model's `explains` if not given")
    layer: Number | None = Field(default=None, description="from 1; every layer if not given")
    head: Number | None = Field(default=None, description="from 1; every head if not given")
    label: str | None = Field(
        default=None, description="of occlusion; the five most probable ones if not given, in a PNG the first of them"
    )
    format: Literal["json", "png"] = "json"


class ShownMap(BaseModel):
    """One map over the image.

    Attributes:
        title: in words: which layer and head, which label, or which token.
        layer: from 1, where it is of one.
        head: from 1, where it is of one.
        values: rows of numbers.
    """

    title: str
    layer: int | None = None
    head: int | None = None
    values: list[list[float]]


class ExplanationResponse(BaseModel):
    """What a model attended to.

    Attributes:
        model: its name.
        kind: what is shown.
        answer: the most probable label, or the text.
        labels: of a classifier, the most probable ones.
        tokens: of a text, what each token adds to it.
        source: of a translation, what stands at each position of its source; of a continuation, of its prompt.
        alignment: of a text, a row of weights a token; of a continuation, of all tokens before it.
        maps: over an image.
    """

    model: str
    kind: Kind
    answer: str
    labels: list[Label] | None = None
    tokens: list[str] | None = None
    source: list[str] | None = None
    alignment: list[list[float]] | None = None
    maps: list[ShownMap] | None = None
