"""``/v1/predict``."""

from typing import Annotated, Any

from pydantic import BaseModel, Field

from serving.gateway.schemas.base import Name, Strict


class PredictionRequest(Strict):
    """Tensors for a custom model."""

    model: Name
    inputs: Annotated[dict[str, Any], Field(min_length=1)] = Field(
        description="input name → rows as nested lists, as /v1/models says the inputs", examples=[{"x": [[0.5, 1.0]]}]
    )


class Prediction(BaseModel):
    """What a custom model makes of them.

    Attributes:
        model: its name.
        outputs: output name → rows as nested lists; a number that JSON has not is null.
        labels: output name → the label of the largest number of each row, of outputs that have one for each label; null
            where one of a row is none.
        label_names: of the model that answered, where they were asked for.
    """

    model: str
    outputs: dict[str, Any]
    labels: dict[str, list[str | None]]
    label_names: list[str] | None = None
