"""``/v1/embeddings``."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from attendant.sampling_params import PARAMS
from clients.embed import Pooling
from serving.gateway.schemas.base import Name, Strict, Usage

MOST_TEXTS = 2048


class EmbeddingRequest(Strict):
    """One or more texts."""

    model: Name
    input: str | Annotated[list[str], Field(min_length=1, max_length=MOST_TEXTS, fail_fast=True)] = Field(
        examples=["a cat sat"]
    )
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, Field(ge=1, le=1 << 16)] | None = Field(
        default=None, description="the first so many of each vector, scaled to length 1"
    )
    pooling: Pooling = Field(default="mean", description="how the vectors of a text's tokens become one")
    parse_special: bool = Field(default=False, description=PARAMS["parse_special"].help)
    user: str | None = Field(default=None, description="taken, and not used")

    def texts(self) -> list[str]:
        """One or more texts."""
        return [self.input] if isinstance(self.input, str) else self.input


class EmbeddingItem(BaseModel):
    """One text's vector; in base64 as little-endian float32."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class EmbeddingList(BaseModel):
    """The vectors, in the order of the texts."""

    object: Literal["list"] = "list"
    model: str
    data: list[EmbeddingItem]
    usage: Usage
